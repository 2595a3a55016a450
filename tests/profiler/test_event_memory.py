"""What events hold in memory is told while they are recorded, and ends a recording that has too many."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from jaxobs_plugins.probes.profiler import recording
from jaxobs_plugins.probes.profiler.recording import Allocated, Ended, SessionLock, watched

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
    assert watched(SessionLock(), 30.0, lambda: next(held), 20) is Ended.REFUSED


def test_a_recording_of_which_nothing_is_known_takes_its_time():
    assert watched(SessionLock(), 0.05, lambda: None, 0) is Ended.WHOLE
