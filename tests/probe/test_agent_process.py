"""What the job can learn of its agent's process without the pipe."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jaxobs.flow.pipe import Descriptor
from jaxobs.probe.transport.agent_process import AgentProcess

if TYPE_CHECKING:
    import pytest


def test_an_agent_that_ends_while_its_state_is_read_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    pipe, other_end = Descriptor.pair()
    agent = AgentProcess(pipe)
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
        pipe.close()
        other_end.close()
