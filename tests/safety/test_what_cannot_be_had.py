"""No thread, no process to be had: the job goes on, and nothing of ours stays behind."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxobs.probe.transport.agent_process import start_agent_process, start_agent_thread

NO_MORE_THREADS = """
import gc, threading
import jax
import jaxobs

MOST = {most}
started = 0

begin = threading.Thread.start

def begin_with_too_large_a_stack(thread):
    global started
    started += 1
    if started > MOST:
        threading.stack_size(1 << 46)  # no address space has room for it: the start fails as without memory
    begin(thread)

from jax._src import monitoring
listeners = lambda: [len(monitoring._event_listeners), len(monitoring._event_duration_secs_listeners), len(gc.callbacks)]
before = threading.active_count(), len(os.listdir("/proc/self/fd")), listeners()
threading.Thread.start = begin_with_too_large_a_stack
obs = jaxobs.instrument()
for _ in obs.steps(range(3)):
    print(float(jax.jit(lambda x: x + 1)(1.0)))
assert obs.address is None and obs.snapshot()["loops_reason"] == "the observer has ended"
obs.shutdown()
after = threading.active_count(), len(os.listdir("/proc/self/fd")), listeners()
assert after == before, (after, before)
"""


@pytest.mark.parametrize("most", [0, 1])
def test_where_a_thread_cannot_be_started_the_job_is_as_without(run: Callable[..., Any], most: int) -> None:
    outcome = run(NO_MORE_THREADS.format(most=most), observed=False)
    assert (outcome.status, outcome.stdout) == (0, "2.0\n2.0\n2.0\n"), outcome.stderr
    assert outcome.stderr.splitlines() == ["jaxobs: nothing is observed: can't start new thread"]


MANY_FILES = """
import resource
import jaxobs

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
obs = jaxobs.instrument(prometheus=False)
for _ in obs.steps(range(3)):
    pass
print(obs.snapshot(60)["loops"]["train"]["steps"])
"""


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1200, reason="so few may be open here")
@pytest.mark.parametrize("agent", ["process", "inline"])
def test_a_job_with_more_open_files_than_select_takes_is_observed(
    run: Callable[..., Any], agent: str
) -> None:
    outcome = run(MANY_FILES, observed=False, JAXOBS_AGENT=agent)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "3\n", "")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(("path", "error"), [(None, TypeError), ("/nowhere/python", OSError)])
def test_an_agent_that_cannot_be_started_leaves_no_socket(
    monkeypatch: pytest.MonkeyPatch, path: Any, error: type[Exception]
) -> None:
    monkeypatch.setattr(sys, "executable", path)
    before = descriptors()
    with pytest.raises(error):
        start_agent_process()
    assert descriptors() == before


def test_a_frozen_program_is_not_started_again_in_the_place_of_an_agent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    application = tmp_path / "application"
    application.write_text(f"#!/bin/sh\ntouch {started}\n", encoding="utf-8")
    application.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(application))
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(OSError, match="this program is frozen"):
        start_agent_process()
    assert not started.exists()


def test_an_agent_on_a_thread_that_cannot_be_started_leaves_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    before = descriptors()
    with pytest.raises(OSError, match="can't start new thread"):
        start_agent_thread(lambda _: None)
    assert descriptors() == before
