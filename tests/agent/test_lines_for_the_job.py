"""What the agent keeps of the lines that it has sent to the job's logger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxobs.agent import service as module
from jaxobs.flow import wire
from tests.agent.beside import service_in_process

if TYPE_CHECKING:
    import pytest


def test_a_line_is_sent_once_a_minute_and_forgotten_then(monkeypatch: pytest.MonkeyPatch) -> None:
    with service_in_process() as (service, job):
        frames = list[tuple[bytes, object]]()
        for minute in range(50):
            monkeypatch.setattr(module, "monotonic", lambda at=60.0 * minute: at)
            service.log("again")
            service.log("again")
            service.log(f"the line of minute {minute}")
            frames += wire.Frames().feed(job.recv(1 << 16))
        assert [body for kind, body in frames if kind == wire.LOG].count("again") == 50
        assert len(service._logged) == 2
