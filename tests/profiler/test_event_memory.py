"""What events hold in memory is told while they are recorded, and ends a recording that has too many."""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
import sys
import time
from typing import Any

import pytest

from jaxobs_plugins.probes.profiler import recording
from jaxobs_plugins.probes.profiler.recording import (
    LOOK_SECONDS,
    LOOK_SHARE,
    Allocated,
    Ended,
    SessionLock,
    usually_allocated,
    watched,
)

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


@glibc
def test_nothing_is_told_where_memory_comes_from_another_malloc(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler: apt install gcc")
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text(
        "void *__libc_malloc(unsigned long); void *malloc(unsigned long n) { return __libc_malloc(n); }"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    program = "from jaxobs_plugins.probes.profiler.recording import Allocated; print(Allocated()())"
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "None\n"


def telling(ask: Any) -> Allocated:
    """What malloc has allocated, by another function than malloc's."""
    allocated = Allocated()
    allocated._ask = ask
    return allocated


def test_looks_are_as_far_apart_as_one_takes_time():
    until = time.thread_time() + 0.01

    def ask() -> int:
        while time.thread_time() < until:
            pass
        return 1

    allocated = telling(ask)
    assert allocated() == 1
    assert LOOK_SHARE * allocated.pause >= 0.01 - 0.001
    assert allocated() == 1  # at once
    assert allocated.pause == LOOK_SECONDS


def test_a_recording_is_refused_when_memory_has_grown_beyond_the_cap():
    held = iter([20, 31, 32, 25, 31, 32, 33])
    assert watched(SessionLock(), 30.0, telling(lambda: next(held)), 30) is Ended.REFUSED
    assert list(held) == []


def test_what_is_allocated_and_freed_in_each_step_is_no_events():
    by_turns = itertools.cycle([10, 10, 90, 90, 90, 90])
    allocated = telling(lambda: next(by_turns))
    usual = usually_allocated(SessionLock(), None, allocated)
    assert usual == 90
    assert watched(SessionLock(), 0.3, allocated, usual + 20) is Ended.WHOLE


@pytest.mark.parametrize(("ask", "most"), [(None, 0), (lambda: 1, None)], ids=["not told", "not looked at"])
def test_a_recording_of_which_nothing_is_known_takes_its_time(ask: Any, most: int | None):
    assert usually_allocated(SessionLock(), None, telling(None)) is None
    assert watched(SessionLock(), 0.05, telling(ask), most) is Ended.WHOLE


def test_the_users_session_ends_the_looks_before_a_recording():
    lock = SessionLock()
    lock.user_comes(1, 0.0)
    assert usually_allocated(lock, 100.0, telling(lambda: 1)) is None
