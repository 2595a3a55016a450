"""How often a program called its jitted functions in parts of a trace."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from jaxobs.jax_compat.runtime import profiler_module
from jaxobs.trace import read_trace
from jaxobs.trace.reading import calls_in, outermost

MICROSECOND = 10**6  # picoseconds


def call(start: int, end: int, function: str = "step", line: int = 0) -> tuple[int, int, int, str]:
    return (line, start * MICROSECOND, -end * MICROSECOND, function)


def test_one_call_is_noted_twice_and_counted_once():
    assert list(outermost([call(0, 10), call(1, 9)])) == [(0, "step")]


def test_another_function_inside_a_call_and_the_same_on_another_thread_are_calls_of_their_own():
    found = Counter(
        function for _, function in outermost([call(0, 10), call(1, 9, "inner"), call(1, 9, line=1)])
    )
    assert found == {"step": 2, "inner": 1}


def test_a_call_belongs_to_the_stretch_in_which_it_begins():
    calls = [call(0, 2), call(5, 12), call(10, 11, "other"), call(30, 31)]
    assert calls_in(
        {"train": [(4e-6, 10e-6)], "eval": [(10e-6, 11e-6)], "none": [(40e-6, 41e-6)]}, calls
    ) == {
        "train": {"step": 1},
        "eval": {"other": 1},
    }


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), max_size=30), st.integers(1, 3))
def test_whatever_the_order_calls_after_each_other_are_all_counted(pauses, notes):
    noted, expected, time = [], Counter[str](), 0
    for function, length in pauses:
        noted += [call(time, time + length, str(function))] * notes
        expected[str(function)] += 1
        time += length
    assert Counter(function for _, function in outermost(reversed(noted))) == expected


def test_calls_of_a_real_program_are_seen_by_name():
    import jax
    import jax.numpy as jnp

    @jax.jit
    def called_each_time(x):
        return x + 1.0

    @jax.jit
    def called_each_third_time(x):
        return x * 2.0

    x = called_each_third_time(called_each_time(jnp.ones(8)))
    profiler = profiler_module()
    options = profiler.ProfileOptions()
    options.python_tracer_level, options.host_tracer_level = 0, 1
    session = profiler.ProfilerSession(options)
    for turn in range(12):
        x = called_each_time(x)
        if turn % 3 == 0:
            x = called_each_third_time(x)
    x.block_until_ready()
    trace = read_trace(session.stop(), stretches={"all": [(0.0, 60.0)]})
    calls = trace.hosts[0].calls["all"]
    assert calls["called_each_time"] == 12
    assert calls["called_each_third_time"] == 4
