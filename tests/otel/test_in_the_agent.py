"""What a real agent tells of its exporter `otel`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.agent.beside import AgentProcess
from tests.otel.job import Receiver


@pytest.fixture
def agent(receiver: Receiver, environment: pytest.MonkeyPatch) -> Iterator[AgentProcess]:
    environment.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{receiver.endpoint}/v1/metrics")
    agent = AgentProcess(prometheus=False)
    yield agent
    agent.close()


def otel(document: dict[str, Any]) -> dict[str, Any]:
    source: dict[str, Any] = document["sources"]["otel"]
    return source


def test_while_nothing_arrives_the_source_is_down_also_between_two_attempts(
    agent: AgentProcess, receiver: Receiver
) -> None:
    receiver.answer = lambda path, message: (503, {"Retry-After": "2"}, b"")
    failures = otel(agent.snapshot_when(lambda document: otel(document)["failures"]))["failures"]
    between = [otel(agent.snapshot()) for _ in range(10)]
    assert [source["failures"] for source in between] == [failures] * 10
    assert {source["up"] for source in between} == {False}
    assert "metrics" in between[-1]["reason"]
    assert "HTTP 503" in between[-1]["reason"]
    receiver.answer = lambda path, message: (200, {}, b"")
    agent.snapshot_when(lambda document: otel(document)["up"])
