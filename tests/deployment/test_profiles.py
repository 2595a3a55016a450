"""OTLP profiles of the demo through the real Collector, which takes them behind a feature gate."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import yaml

from benchmarks.beside import free_ports
from tests.deployment.programs import Program, demo, tool
from tests.otel.conftest import receiver
from tests.otel.job import Receiver
from tests.otel.test_profiles import PATH, kinds_of, read
from tests.waiting import wait_for

__all__ = ["receiver"]  # a fixture

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(300)]


def test_the_collector_hands_on_all_device_time_by_line(tmp_path: Path, receiver: Receiver) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    exporter = {"profiles_endpoint": receiver.endpoint + PATH, "compression": "none"}
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": address}}}},
        "exporters": {"otlp_http": exporter},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"profiles": {"receivers": ["otlp"], "exporters": ["otlp_http"]}},
        },
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    command: list[str | Path] = [
        tool("collector"), "--config", tmp_path / "config.yaml",
        "--feature-gates=service.profilesSupport",
    ]  # fmt: skip
    collector = Program(command, tmp_path / "collector.log", {})
    try:
        wait_for(lambda: socket.create_connection(("127.0.0.1", port), 1).close() or True, "the Collector")
        endpoint = {"OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT": f"http://{address}{PATH}"}
        output, _ = demo(20, tmp_path, JAXOBS_SHUTDOWN_TIMEOUT="20", **endpoint).communicate(timeout=180)
        rows = json.loads(output)["device_time"]["by_line"]
        whole = sum(row["seconds"] for row in rows if not row["depth"])
        messages = [request.message for request in receiver.accepted(PATH)]
        for message in messages:
            message.dictionary.attribute_table[
                0
            ].Clear()  # the Collector gives the empty entry an empty value
        assert set[str]().union(*map(kinds_of, messages)) == {"device_time", "host_time"}
        of_device = [message for message in messages if "device_time" in kinds_of(message)]
        windows = [window for message in of_device for window in read(message)]
        sent = sum(sum(window.values()) for window in windows)
    finally:
        collector.end()
    assert whole > 0
    assert sent / 1e9 == pytest.approx(whole, rel=1e-3), (tmp_path / "collector.log").read_text()
