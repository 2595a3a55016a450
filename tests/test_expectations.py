"""What is expected of a run by `obs.expect`: what holds, what fails, and what is not known, in jobs of their own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.expectations import FIGURES, HOLDS, Expectations, read_bounds
from tests.jobs import run, start

__all__ = ["run", "start"]  # fixtures

STEPS = """
import jax, jax.numpy as jnp
step = obs.watch(jax.jit(lambda x: x * 2)) if OBSERVED else jax.jit(lambda x: x * 2)
def train(sizes):
    for size in obs.steps(sizes):
        step(jnp.ones(size)).block_until_ready()
def said(block):
    try:
        with block:
            train(SIZES)
    except jaxobs.ExpectationError as error:
        print(error)
    else:
        print("no error")
"""


@given(st.sampled_from(FIGURES), st.sampled_from(sorted(HOLDS)), st.floats(-1e9, 1e9))
def test_a_bound_is_read_as_it_is_written(name: str, sign: str, number: float) -> None:
    (bound,) = read_bounds({name: f" {sign} {number!r} "})
    assert (bound.name, bound.sign, bound.number) == (name, sign, number)
    assert bound.holds(number) == ("=" in sign)


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ({"mfuu": ">3"}, "no such figure (did you mean 'mfu'?); there are recompilations, step_seconds"),
        ({"mfu": "mfu>3"}, r"expect(mfu='mfu>3'): write a comparison and a number as text, such as '>=0.3'"),
        ({"mfu": ">=nan"}, "write a comparison"),
        ({"mfu": ">=1.2.3"}, "write a comparison"),
        ({"mfu": 0.3}, "write a comparison"),
        ({"recompilations": True}, "write a comparison"),
        ({}, "expect() needs something to expect"),
    ],
)
def test_what_cannot_be_read_is_an_error_at_the_call(figures: dict, says: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011  # what it says is compared below
        read_bounds(figures)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_end_of_the_run_may_come_while_a_block_is_judged() -> None:
    said: list[str] = []
    run_has_ended = False

    def why_uncounted() -> str:
        nonlocal run_has_ended
        if not run_has_ended:
            run_has_ended = True  # on another thread, or in a signal handler
            assert expectations.end() == ""
        return "nothing was seen"

    expectations = Expectations(lambda timeout: {}, lambda: 0, why_uncounted, said.append)
    with expectations.expect({"recompilations": 0}, on_failure="warn"):
        pass
    assert said == ["expected recompilations == 0, and it is not known: nothing was seen"]  # once


def test_where_it_is_looked_at_it_says_what_is_expected() -> None:
    expectations = Expectations(lambda timeout: {}, lambda: 0, lambda: "", lambda line: None)
    expected = expectations.expect({"recompilations": "<=2", "mfu": ">=0.3"}, on_failure="warn")
    assert repr(expected) == "<expected, to be judged at the end: recompilations <= 2, mfu >= 0.3>"


def test_a_block_tells_recompilations_after_its_first_steps(run) -> None:
    source = STEPS + "SIZES = [2, 3, 4, 4, 5, 4]\n"
    source += "said(obs.no_recompiles(after=3, on_failure='error'))\n"
    source += "said(obs.no_recompiles(after=4, on_failure='error'))\n"  # 5 was compiled by the block before
    source += "said(obs.no_recompiles(after=6, on_failure='error'))\n"
    source += "SIZES = [9]\nwith obs.no_recompiles(): train(SIZES)\n"
    outcome = run(source)
    assert outcome.status == 0, outcome.stderr
    first, line, held, unknown = outcome.stdout.splitlines()
    assert first == "expected recompilations == 0 after 3 steps, and there were 1"
    assert line.startswith("  `<lambda>` was compiled again at <string>:")
    assert line.endswith(": shape, x: float32[4] → float32[5]")
    assert held == "no error"
    assert unknown == (
        "expected recompilations == 0 after 6 steps, and it is not known: no more than 6 steps ended"
    )
    (warning,) = outcome.stderr.splitlines()
    assert warning.startswith(
        "jaxobs: expected recompilations == 0, and there were 1; `<lambda>` was compiled"
    )


def test_an_unknown_figure_neither_holds_nor_fails_and_says_why(run) -> None:
    source = STEPS + "SIZES = [2] * 3\n"
    source += "said(obs.expect(mfu='>=0', loop='none', on_failure='error'))\n"
    source += "said(obs.expect(recompilations='<=3', on_failure='error'))\n"
    outcome = run(source, JAXOBS_PEAK_FLOPS="")
    unknown, held = outcome.stdout.splitlines()
    assert unknown == "expected mfu >= 0 of loop none, and it is not known: no such loop was seen"
    assert held == "no error"


def test_the_error_of_a_block_is_the_jobs_own_where_it_has_one(run) -> None:
    source = STEPS + "train([2])\n"
    source += "with obs.no_recompiles(on_failure='error'):\n    train([3])\n    raise KeyError('its own')\n"
    outcome = run(source)
    assert outcome.stderr.rstrip().endswith("KeyError: 'its own'")
    assert "ExpectationError" not in outcome.stderr
    assert "jaxobs: expected recompilations == 0, and there were 1; `<lambda>`" in outcome.stderr


def test_what_is_expected_of_the_run_is_judged_at_its_end(run) -> None:
    ending = (
        "obs.expect(recompilations=0, steps_per_second='>=1e9', on_failure='error')\ntrain([2, 3] * 20)\n"
    )
    shut = run(STEPS + ending + "obs.snapshot(60)\nobs.shutdown()\n")
    assert shut.status == 1
    assert (
        "jaxobs.expectations.ExpectationError: expected recompilations == 0, and there were 1" in shut.stderr
    )
    assert "expected steps_per_second >= 1e+09 of loop train, and it is " in shut.stderr
    left = run(STEPS + ending + "obs.snapshot(60)\n")
    assert left.status == 0, "when the interpreter ends no error can be raised any more"
    assert "jaxobs: expected recompilations == 0, and there were 1; `<lambda>`" in left.stderr
    assert "Traceback" not in left.stderr


def test_an_agent_that_does_not_answer_holds_up_the_end_no_longer_than_was_allowed(run) -> None:
    source = STEPS + (
        "obs.expect(mfu='>=0.3')\nobs.expect(steps_per_second='>=1')\ntrain([2])\n"
        "import signal; os.kill(obs.snapshot(60)['agent']['pid'], signal.SIGSTOP)\n"
        "began = time.monotonic()\nobs.shutdown(1.0)\nprint(time.monotonic() - began < 4)\n"
    )
    outcome = run(source)
    assert outcome.stdout == "True\n"
    assert outcome.stderr.count("it is not known: the agent did not answer within 0.5 s") == 2


def test_a_failure_of_the_probe_leaves_the_count_unknown(run) -> None:
    source = STEPS + (
        "train([2])\n(probe,) = [each for each in obs._side.sources if each.guard.source == 'compile']\n"
        "probe.guard.switch_off('for the test')\nSIZES = [3]\nsaid(obs.no_recompiles(on_failure='error'))\n"
    )
    assert run(source).stdout == (
        "expected recompilations == 0, and it is not known: the probe that sees compiles failed: for the test\n"
    )


def test_listeners_that_were_cleared_leave_the_count_unknown(run) -> None:
    source = STEPS + (
        "train([2])\nSIZES = []\ncleared = obs.no_recompiles(on_failure='error')\n"
        "jax.monitoring.clear_event_listeners()\nsaid(cleared)\nsaid(cleared)\n"
        "with cleared:\n    jax.monitoring.clear_event_listeners()\n"
    )
    outcome = run(source.replace("said(cleared)", "print(cleared.end(dict))", 1))
    unknown, held = outcome.stdout.splitlines()
    assert unknown.startswith(
        "expected recompilations == 0, and it is not known: `jax.monitoring.clear_event"
    )
    assert held == "no error", "the listeners are back"
    assert f"ExpectationError: {unknown}" in outcome.stderr


def test_calls_before_the_first_marked_step_hide_no_recompilation(run) -> None:
    source = STEPS + "for _ in range(10):\n    step(jnp.ones(2))\nSIZES = [2, 2, 3]\n"
    first, _ = run(source + "said(obs.no_recompiles(after=1, on_failure='error'))\n").stdout.splitlines()
    assert first == "expected recompilations == 0 after 1 step, and there were 1"


def test_a_trainer_that_holds_one_can_be_copied(run) -> None:
    source = "import copy\nheld = {'guard': obs.no_recompiles()}\nprint(copy.deepcopy(held) == held)\n"
    assert run(source).stdout == "True\n"


def test_where_jaxobs_is_switched_off_only_the_call_is_checked(run) -> None:
    source = STEPS + "SIZES = [2, 3]\nsaid(obs.no_recompiles(on_failure='error'))\nobs.expect(mfuu='>1')\n"
    outcome = run(source, JAXOBS_ENABLED="0")
    assert outcome.stdout == "no error\n"
    assert "ValueError: expect(mfuu=…): no such figure" in outcome.stderr
