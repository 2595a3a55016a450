"""What is compiled in a phase inside a step, such as an evaluation, belongs to the phase and not to the loop."""

from __future__ import annotations

import pytest

from jaxobs.derive.fold import Fold
from jaxobs.model.events import Compilation, Event, ExecutableRan, FunctionWatched, LoopEnded, PhaseEnded
from tests.derive.made_up import (
    PEAKS,
    applied,
    at,
    backend,
    compiled,
    created,
    module,
    new_fold,
    run_seconds,
    step,
    waits,
)


def compiles(function: str, start: float, end: float, thread: int = 1) -> list[Event]:
    """All that is told of a compile."""
    phases = (("backend", at(start), at(end)),)
    whole = Compilation(function, 2, thread, at(end), phases, "off", None, (), None)
    return [compiled(start, end, function=function, thread=thread), whole]


def trained(kind: str, inside: str = "train") -> Fold:
    """Steps of a second, the sixth with a phase of nine seconds more, in which something is compiled for four."""
    fold = applied(new_fold(), [backend(), created(1, "train_step")])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    fold.apply(FunctionWatched(-1, "train_step", "", at(0.3)))
    applied(fold, [ExecutableRan(1, 0.8, 0.001, at(0.5)), waits()])
    applied(fold, [step(number, 1.0 + number, 2.0 + number, runs=(1,)) for number in range(5)])
    applied(fold, [*compiles("eval_step", 6.2, 10.2), PhaseEnded(kind, inside, at(6.1), at(15.1), 0)])
    parts = {"checkpoint": 9.0} if kind == "checkpoint" else {"nested": 9.0}
    fold.apply(step(5, 6.0, 16.0, runs=(1,), **parts))  # type: ignore[arg-type]  # numbers by name
    return applied(fold, [LoopEnded("train", at(16.0), 0)])


def test_an_evaluation_in_a_step_leaves_the_loop_its_utilization_and_its_own_seconds() -> None:
    fold = trained("evaluation")
    charged = run_seconds(fold, 16.0)
    loop = fold.snapshot(at(16.0)).to_dict()["loops"]["train"]
    assert loop["wall_seconds"] == pytest.approx(6.0)
    assert loop["components"]["compile"] == 0.0
    assert loop["mfu"] is not None
    assert (charged["productive"], charged["compile"]) == (pytest.approx(6.0), pytest.approx(4.0))
    assert sum(charged.values()) == pytest.approx(16.0)


def test_a_compile_in_a_save_is_charged_once() -> None:
    fold = trained("checkpoint")
    charged = run_seconds(fold, 16.0)
    components = fold.snapshot(at(16.0)).to_dict()["loops"]["train"]["components"]
    assert (components["compile"], components["checkpoint"]) == (0.0, pytest.approx(9.0))
    assert (charged["productive"], charged["checkpoint"]) == (pytest.approx(6.0), pytest.approx(9.0))


def test_a_compile_beside_the_phase_is_the_steps_own() -> None:
    """As one in a phase of another loop, or before the phase."""
    fold = trained("evaluation", inside="other")
    assert fold.snapshot(at(16.0)).to_dict()["loops"]["train"]["components"]["compile"] == pytest.approx(1.0)
    fold = applied(
        new_fold(), [*compiles("f", 1.0, 3.0), PhaseEnded("evaluation", "train", at(4.0), at(6.0), 0)]
    )
    fold.apply(step(0, 1.0, 7.0, nested=2.0))
    components = fold.snapshot(at(7.0)).to_dict()["loops"]["train"]["components"]
    assert components["compile"] == pytest.approx(2.0)


@pytest.mark.parametrize(("own", "rate"), [(0.001, None), (0.25, 4.0)])
def test_steps_of_which_inner_loops_take_most_say_so(own: float, rate: float | None) -> None:
    fold = applied(new_fold(), [step(n, 2.0 * n, 2.0 * n + 2.0, nested=2.0 - own) for n in range(8)])
    loop = fold.snapshot(at(16.0)).to_dict()["loops"]["train"]
    assert loop["steps_per_second"] == pytest.approx(rate)
    assert "loops and phases inside" in loop["steps_per_second_reason"]
