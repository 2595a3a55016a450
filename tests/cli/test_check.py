"""`jaxobs check` says what holds here, and what needs attention."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from jaxobs.cli.checks.devices import hardware_present, peaks_lines, read_devices, unused_hardware
from jaxobs.cli.checks.network import check_endpoints, check_metrics_address
from jaxobs.cli.checks.settings import MASK, check_settings, mask
from jaxobs.identity import read_identity
from jaxobs.model.hardware import peaks_for
from jaxobs.plugin.discovery import COLLECTORS, Found

sys.path.insert(0, str(Path(__file__).parent))
from launched import jaxobs


@pytest.fixture
def listener() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("JAXOBS_", "OTEL_"))]:
        monkeypatch.delenv(name)


def report(folder: Path, **extra: str) -> tuple[int, dict[str, Any]]:
    answered = jaxobs("check", "--json", folder=folder, JAXOBS_CACHE_DIRECTORY=str(folder), **extra)
    return answered.status, json.loads(answered.stdout)


def test_everything_in_one_report(tmp_path: Path) -> None:
    status, checked = report(
        tmp_path, JAXOBS_INTERVL="3", JAXOBS_SAMPLE_INTERVAL="2", OTEL_EXPORTER_OTLP_HEADERS="authorization=secret",
        OTEL_EXPORTER_PROMETHEUS_PORT="0",
    )  # fmt: skip
    assert status == 1
    assert checked["settings"]["sample_interval"] == {"value": 2.0, "origin": "JAXOBS_SAMPLE_INTERVAL"}
    assert checked["settings"]["interval"] == {"value": 1.0, "origin": "default"}
    assert checked["variables"]["OTEL_EXPORTER_OTLP_HEADERS"] == MASK
    assert "secret" not in json.dumps(checked)
    assert checked["problems"][0] == "unknown variable JAXOBS_INTERVL (did you mean JAXOBS_INTERVAL?)"
    assert checked["versions"]["jax"]
    assert [device["platform"] for device in checked["devices"]] == ["cpu"]
    assert "jaxobs calibrate" in checked["devices"][0]["peaks"]["reason"]
    assert checked["metrics"]["free"] is True


def test_peaks_that_the_user_gave_are_shown_with_their_provenance(tmp_path: Path) -> None:
    _, checked = report(tmp_path, JAXOBS_PEAK_FLOPS='{"float32": 1e12}', JAXOBS_PEAK_BYTES_PER_SECOND="1e10")
    peaks = checked["devices"][0]["peaks"]
    assert (peaks["matrix"]["float32"]["value"], peaks["matrix"]["float32"]["provenance"]) == (1e12, "user")
    assert "  float32 matrix         1e+12 FLOP/s  user: settings" in peaks_lines(peaks)


def test_the_text_tells_the_same(tmp_path: Path) -> None:
    answered = jaxobs("check", folder=tmp_path, JAXOBS_INTERVAL="soon")
    assert answered.status == 1
    assert "JAXOBS_INTERVAL='soon'" in answered.stdout.partition("needs attention:")[2]
    assert "device 0: cpu (cpu)" in answered.stdout


@pytest.mark.usefixtures("no_settings")
def test_a_secret_is_masked_wherever_it_stands() -> None:
    assert (
        mask("OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:word@host:4318/v1")
        == f"https://{MASK}@host:4318/v1"
    )
    assert mask("JAXOBS_METRICS_TOKEN", "abc") == MASK
    assert mask("OTEL_SERVICE_NAME", "trainer") == "trainer"
    assert check_settings({"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b"})["variables"] == {
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": MASK
    }


def test_a_taken_port_is_a_note_and_in_kubernetes_a_problem(listener: socket.socket) -> None:
    environment = {"OTEL_EXPORTER_PROMETHEUS_PORT": str(listener.getsockname()[1])}
    taken = check_metrics_address(environment, read_identity({}), wanted=True)
    assert (taken["free"], taken["problems"]) == (False, [])
    assert "next free one" in taken["note"]
    cluster = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert check_metrics_address(environment, read_identity(cluster), wanted=True)["problems"] != []


def test_the_rank_on_the_host_moves_the_port() -> None:
    identity = read_identity({"SLURM_LOCALID": "3"})
    assert check_metrics_address({}, identity, wanted=True)["address"] == "http://localhost:9467/metrics"


@pytest.mark.parametrize("port", ["soon", "-1", "65536", "٣"])
def test_a_port_that_is_none_is_a_problem(port: str) -> None:
    checked = check_metrics_address({"OTEL_EXPORTER_PROMETHEUS_PORT": port}, read_identity({}), wanted=True)
    assert "OTEL_EXPORTER_PROMETHEUS_PORT" in checked["problems"][0]


def test_endpoints_are_tried(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://name:word@127.0.0.1:1/v1/metrics",
    }
    checked = check_endpoints(environment)
    assert checked["endpoints"]["traces"]["reachable"] is True
    assert checked["endpoints"]["metrics"]["reachable"] is False
    assert checked["problems"] == [
        f"metrics cannot be sent to http://{MASK}@127.0.0.1:1/v1/metrics: Connection refused"
    ]
    assert check_endpoints({**environment, "OTEL_SDK_DISABLED": "true"})["endpoints"] == {}


class _TwoDevices:
    def devices_present(self) -> tuple[str, ...]:
        return ("NVIDIA H100", "NVIDIA H100")


class _Broken:
    def devices_present(self) -> tuple[str, ...]:
        raise RuntimeError


def test_hardware_that_jax_does_not_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    found = [
        Found(COLLECTORS, "nvidia", "", "", _TwoDevices()),
        Found(COLLECTORS, "broken", "", "", _Broken()),
    ]
    present = {name: names for name, names in hardware_present(found).items() if name != "amd"}
    assert present == {"nvidia": ["NVIDIA H100", "NVIDIA H100"]}
    on_cpu = {"platform": "cpu", "devices": [{"platform": "cpu"}]}
    assert (
        "2 × NVIDIA H100 here, and JAX does not use it: it runs on cpu; install"
        in unused_hardware(present, on_cpu)[0]
    )
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert "JAX_PLATFORMS=cpu" in unused_hardware(present, on_cpu)[0]
    assert unused_hardware(present, {"platform": "gpu", "devices": [{"platform": "gpu"}]}) == []


def test_a_jax_that_cannot_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "no_such_platform")
    assert "no_such_platform" in read_devices()["error"]
    assert "within 0 s" in read_devices(timeout=0.01)["error"]


def test_the_peaks_of_a_known_device_have_sources() -> None:
    lines = peaks_lines(peaks_for("NVIDIA H100 80GB HBM3", "gpu").to_dict())
    assert any(line.startswith("  bfloat16 matrix") and "datasheet: " in line for line in lines)
