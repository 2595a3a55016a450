"""What the agent keeps of the lines that it has sent to the job's logger."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from jaxobs.agent import service as module
from jaxobs.agent.service import Service
from jaxobs.config import Settings, plain_settings
from jaxobs.flow import wire
from jaxobs.model.clock import ClockAnchor, now

if TYPE_CHECKING:
    import pytest


def test_a_line_is_sent_once_a_minute_and_forgotten_then(monkeypatch: pytest.MonkeyPatch) -> None:
    job, pipe = socket.socketpair()
    hello = {
        "settings": plain_settings(Settings(), rank_on_host=0, in_kubernetes=False),
        "resource": {}, "clock": tuple(ClockAnchor.read()), "began": now(),
    }  # fmt: skip
    service = Service(hello, pipe)
    frames = list[tuple[bytes, object]]()
    for minute in range(50):
        monkeypatch.setattr(module, "monotonic", lambda at=60.0 * minute: at)
        service.log("again")
        service.log("again")
        service.log(f"the line of minute {minute}")
        frames += wire.Frames().feed(job.recv(1 << 16))
    assert [body for kind, body in frames if kind == wire.LOG].count("again") == 50
    assert len(service._logged) == 2
    service._pipe.close()
    pipe.close()
    job.close()
