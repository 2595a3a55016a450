"""What the threads of jaxobs in the job cost it."""

from __future__ import annotations

import errno
import threading
import time
from typing import Any
from unittest import mock

from jaxobs.flow import wire
from jaxobs.model.events import ProbeReported
from jaxobs.plugin import threads
from jaxobs.plugin.threads import Flag, Thread, cpu_seconds
from tests.probe.conftest import observed
from tests.waiting import wait_for

__all__ = ["observed"]  # a fixture

SPENT = 0.2
"""Seconds of processor time that a test's thread takes; nobody else's are as many meanwhile."""


def compute(done: Flag, over: Flag) -> None:
    until = time.thread_time() + SPENT
    while time.thread_time() < until:
        pass
    done.set()
    over.wait()


def test_processor_time_is_told_while_a_thread_lives_and_after_its_end() -> None:
    before, done, over = cpu_seconds(), Flag(), Flag()
    thread = Thread("test", compute, done, over)
    other = threading.Thread(target=compute, args=(Flag(), over))  # none of ours
    other.start()
    assert done.wait(60)
    living = cpu_seconds() - before
    over.set()
    assert thread.join(60)
    other.join()
    ended = cpu_seconds() - before
    assert SPENT <= living <= ended < 2 * SPENT


def test_a_thread_that_may_not_ask_for_its_processor_time_ends_all_the_same() -> None:
    forbidden = PermissionError(errno.EPERM, "a sandbox forbids it")
    with mock.patch.object(threads, "thread_time", side_effect=forbidden):
        assert Thread("test", lambda: None).join(60)


def reported(observed: Any) -> float:
    """The processor time that the sender tells."""
    ((_, body),) = wire.Frames().feed(observed.side.sender._report())
    (report,) = wire.events_of(body)
    assert isinstance(report, ProbeReported)
    return report.cpu_seconds


def test_what_the_profilers_own_thread_takes_is_reported(observed: Any) -> None:
    before, done, over = reported(observed), Flag(), Flag()
    over.set()
    plugin = observed.source("profiler").plugin
    plugin._give(lambda: compute(done, over))
    wait_for(plugin.is_idle, "the task to be done", 60)
    assert reported(observed) - before >= SPENT
