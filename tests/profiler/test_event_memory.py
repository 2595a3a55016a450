"""What events hold in memory is told while they are recorded, and the job's own memory is learnt to be its own."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from jaxobs_plugins.probes.profiler import event_memory
from jaxobs_plugins.probes.profiler.event_memory import HELD_A_TRACED_BYTE, Allocated, EventMemory

MEBIBYTE = 2**20
glibc = pytest.mark.skipif(Allocated()() is None, reason="malloc here does not tell what is allocated")


@glibc
def test_what_malloc_has_given_out_is_told():
    allocated: Any = Allocated()
    before = allocated()
    held = [ctypes.create_string_buffer(64 * 1024) for _ in range(160)]
    grown = allocated() - before
    assert 8 * MEBIBYTE <= grown < 30 * MEBIBYTE
    del held
    assert allocated() - before < grown / 2


@glibc
def test_where_malloc_is_slow_to_answer_it_is_not_asked_again(monkeypatch):
    monkeypatch.setattr(event_memory, "SLOW", -1.0)
    allocated = Allocated()
    assert allocated() is not None
    assert allocated() is None


def test_without_such_a_malloc_nothing_is_known_to_grow():
    memory = EventMemory(lambda: None)
    memory.begin()
    assert memory.grown() == 0


def test_memory_of_the_job_itself_is_not_taken_for_events_and_is_forgotten_in_time():
    now = 0
    memory = EventMemory(lambda: now)

    def window(more, traced):
        nonlocal now
        now = 0
        memory.begin()
        now = more
        grown = memory.grown()
        memory.learn(traced)
        return grown

    assert window(40 * MEBIBYTE, traced=MEBIBYTE) == 40 * MEBIBYTE
    events = HELD_A_TRACED_BYTE * MEBIBYTE
    assert window(40 * MEBIBYTE, traced=MEBIBYTE) == pytest.approx(events, abs=1)
    for _ in range(60):
        assert window(0, traced=0) == 0
    assert window(40 * MEBIBYTE, traced=MEBIBYTE) > 39 * MEBIBYTE


def test_memory_that_shrinks_is_not_less_than_nothing():
    now = 40 * MEBIBYTE
    memory = EventMemory(lambda: now)
    memory.begin()
    now = 0
    assert memory.grown() == 0


def test_arrays_that_come_and_go_in_each_step_are_not_taken_for_events():
    """The session begins when they are gone, and they come back."""
    held = iter([8, 136, 8, 136, 8, 150])
    memory = EventMemory(lambda: next(held) * MEBIBYTE)
    memory.begin()
    for _ in range(3):
        memory.again()
    assert [memory.grown(), memory.grown()] == [0, 14 * MEBIBYTE]
