"""What events hold in memory is told while they are recorded, and ends a recording that has too many."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from jaxobs_plugins.probes.profiler import recording
from jaxobs_plugins.probes.profiler.recording import Allocated, Ended, SessionLock, Watch

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
    monkeypatch.setattr(recording, "MAX_LOOK_SECONDS", -1.0)
    allocated = Allocated()
    assert allocated() is not None
    assert allocated() is None


def test_a_recording_is_refused_when_memory_has_grown_beyond_the_cap():
    held = iter([10, 20, 25, 31])
    watch = Watch(30.0, is_over=lambda: False, allocated=lambda: next(held), max_held=20)
    assert watch.wait(SessionLock()) is Ended.REFUSED


def test_a_recording_of_which_nothing_is_known_takes_its_time():
    assert Watch(0.05, lambda: False, lambda: None, 0).wait(SessionLock()) is Ended.WHOLE
    assert Watch(30.0, lambda: True, lambda: None, 0).wait(SessionLock()) is Ended.COMPILED
