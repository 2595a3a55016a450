"""What the job can learn of its agent's process without the pipe."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxobs.probe.transport import agent_process
from jaxobs.probe.transport.agent_process import AgentProcess, close_in_child, start_agent_process


def test_an_agent_that_ends_while_its_state_is_read_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    agent = AgentProcess()
    agent.introduced(child.pid)

    def then_it_ends(opening: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Any, *args: Any, **kwargs: Any) -> Any:
            file = opening(path, *args, **kwargs)
            if str(path) == f"/proc/{child.pid}/stat":
                child.kill()
                child.wait()
            return file

        return opened

    monkeypatch.setattr(os, "open", then_it_ends(os.open))
    monkeypatch.setattr(io, "open", then_it_ends(io.open))
    try:
        assert not agent.is_stopped()
    finally:
        child.kill()


def sockets_open() -> set[str]:
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the listing itself
            found.add(str(descriptor.readlink()))
    return {link for link in found if link.startswith("socket:")}


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_in_the_midst_of_a_start_closes_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a signal handler, by a fork that began before forks wait for a start, or by one that waited too long."""
    before = sockets_open()

    def forks(_: list[str]) -> bool:
        assert len(sockets_open() - before) == 2
        child = os.fork()
        if child == 0:
            close_in_child()
            os._exit(len(sockets_open() - before))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return True

    monkeypatch.setattr(agent_process, "_start_unseen", forks)
    pipe, _ = start_agent_process()
    pipe.close()
    assert sockets_open() == before
