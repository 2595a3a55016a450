"""What events hold in memory is told while they are recorded, and ends a recording that has too many."""

from __future__ import annotations

import itertools

import pytest

from jaxobs_plugins.probes.profiler import recording
from jaxobs_plugins.probes.profiler.recording import Ended, SessionLock, memory, watched

MEBIBYTE = 2**20


def test_the_memory_of_the_process_is_told_and_its_peak():
    before = memory("VmRSS")
    held = b"1" * (64 * MEBIBYTE)
    assert 60 * MEBIBYTE <= memory("VmRSS") - before <= 80 * MEBIBYTE
    assert memory("VmHWM") >= before + 60 * MEBIBYTE
    del held
    assert memory("nothing") == 0


def test_a_recording_is_refused_when_memory_has_grown_beyond_the_cap(monkeypatch: pytest.MonkeyPatch):
    held = iter([20, 29, 30, 31])
    monkeypatch.setattr(recording, "memory", lambda _: next(held))
    assert watched(SessionLock(), 30.0, 30) is Ended.REFUSED
    assert list(held) == []


@pytest.mark.parametrize("most", [None, 90])
def test_a_recording_in_which_it_does_not_takes_its_time(most: int | None, monkeypatch: pytest.MonkeyPatch):
    by_turns = itertools.cycle([10, 90])
    monkeypatch.setattr(recording, "memory", lambda _: next(by_turns))
    assert watched(SessionLock(), 0.1, most) is Ended.WHOLE


def test_the_users_session_ends_it():
    lock = SessionLock()
    lock.user_comes(0.0)
    assert watched(lock, 30.0, 10**15) is Ended.OTHERS
