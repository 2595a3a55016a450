"""`jaxobs check` says what holds here, and what needs attention."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from jaxobs.cli.check import (
    hardware_present,
    peak_rows,
    problems_of,
    read_devices,
    remarks_of,
    unused_hardware,
    variables_shown,
)
from jaxobs.hardware.known_peaks import peaks_for
from jaxobs.plugin.base import Collector, Exporter
from jaxobs.plugin.discovery import COLLECTORS, EXPORTERS, Found
from jaxobs.plugin.protocol import Remark
from jaxobs.vocabulary.text import MASK, masked
from tests.cli.launched import jaxobs


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
    assert checked["problems"][0] == "unknown setting JAXOBS_INTERVL (did you mean JAXOBS_INTERVAL?)"
    assert checked["versions"]["jax"]
    assert [device["platform"] for device in checked["devices"]] == ["cpu"]
    assert "jaxobs calibrate" in checked["devices"][0]["peaks"]["reason"]
    assert remarks(checked, "prometheus") == ["metrics would be at any free port of localhost"]


def test_peaks_that_the_user_gave_are_shown_with_their_provenance(tmp_path: Path) -> None:
    _, checked = report(tmp_path, JAXOBS_PEAK_FLOPS='{"float32": 1e12}', JAXOBS_PEAK_BYTES_PER_SECOND="1e10")
    peaks = checked["devices"][0]["peaks"]
    assert (peaks["matrix"]["float32"]["value"], peaks["matrix"]["float32"]["provenance"]) == (1e12, "user")
    assert ("float32 matrix", "1 TFLOP/s", "user: settings") in peak_rows(peaks)


def test_the_text_tells_the_same(tmp_path: Path) -> None:
    answered = jaxobs("check", folder=tmp_path, JAXOBS_INTERVAL="soon")
    assert answered.status == 1
    assert "JAXOBS_INTERVAL='soon'" in answered.stdout.partition("needs attention:")[2]
    assert "device 0: cpu (cpu)" in answered.stdout
    assert re.search(r"\ninterval +1\.0 +default\n", answered.stdout)  # it is not the variable's


def test_what_keeps_figures_from_being_there_needs_attention(tmp_path: Path) -> None:
    _, checked = report(tmp_path, OTEL_SDK_DISABLED="true")
    assert "jaxobs is switched off (OTEL_SDK_DISABLED): it observes nothing" in checked["problems"]
    assert checked["devices"][0]["peaks"]["reason"] in checked["problems"]


@pytest.mark.usefixtures("no_settings")
def test_a_secret_is_masked_wherever_it_stands() -> None:
    assert (
        masked("OTEL_EXPORTER_OTLP_ENDPOINT", "https://user:word@host:4318/v1?api-key=abc")
        == f"https://{MASK}@host:4318/v1?{MASK}"
    )
    assert masked("", "sent to https://user:wo@rd@host/: gone") == f"sent to https://{MASK}@host/: gone"
    assert masked("JAXOBS_METRICS_TOKEN", "abc") == MASK
    assert masked("JAXOBS_METRICS_TOKEN_FILE", "/run/token") == "/run/token"
    assert masked("JAXOBS_EXAMPLE_ACCESSKEY", "abc") == MASK
    assert masked("JAXOBS_EXAMPLE_CONNECTION_STRING", "abc") == MASK
    assert masked("", "AccountName=a;AccountKey=b==") == f"AccountName=a;AccountKey={MASK}"
    assert masked("OTEL_SERVICE_NAME", "trainer") == "trainer"
    assert masked("OTEL_RESOURCE_ATTRIBUTES", "team=a,api.key=b") == f"team=a,api.key={MASK}"
    assert masked("", "refused: Authorization: Bearer abc") == f"refused: Authorization: Bearer {MASK}"
    assert variables_shown({"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b"}) == {
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": MASK
    }


def remarks(checked: dict[str, Any], plugin: str) -> list[str]:
    """What a plugin said, problems with a mark before them."""
    (found,) = [described for described in checked["plugins"] if described["name"] == plugin]
    return [("! " if said["problem"] else "") + said["text"] for said in found["remarks"]]


def test_each_plugin_says_what_it_needs_and_lacks(listener: socket.socket, tmp_path: Path) -> None:
    port = listener.getsockname()[1]
    (tmp_path / "file").write_text("")
    under_a_file = str(tmp_path / "file" / "folder")
    status, checked = report(
        tmp_path, OTEL_EXPORTER_PROMETHEUS_PORT=str(port), JAXOBS_FILE_SD_DIRECTORY=under_a_file,
        JAXOBS_JSONL_DIRECTORY=under_a_file, JAXOBS_RUN_DIRECTORY=under_a_file,
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"http://127.0.0.1:{port}",
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT="http://name:word@127.0.0.1:1/v1/metrics",
    )  # fmt: skip
    assert status == 1
    address, target_file = remarks(checked, "prometheus")
    assert address.startswith(f"! port {port} is taken: metrics would be at http://localhost:")
    assert address.endswith("; free that port, or set JAXOBS_METRICS_PORT to a free one")
    assert target_file == (
        f"! no file_sd file can be written in {under_a_file}: Not a directory ({tmp_path / 'file'}); "
        "set JAXOBS_FILE_SD_DIRECTORY to a writable directory"
    )
    assert remarks(checked, "jsonl") == [
        (
            f"! {under_a_file}: cannot write events: Not a directory ({tmp_path / 'file'}); "
            "set JAXOBS_JSONL_DIRECTORY to a writable directory"
        )
    ]
    (kept,) = remarks(checked, "run_record")
    assert kept == (
        f"! no record of the run can be written: {under_a_file}: Not a directory ({tmp_path / 'file'}); "
        "set JAXOBS_RUN_DIRECTORY to a writable directory, or JAXOBS_KEEP_RUNS=0"
    )
    assert remarks(checked, "otel") == [
        f"traces would be sent to http://127.0.0.1:{port}, which takes connections",
        (
            "! metrics cannot be sent to http://127.0.0.1:1/v1/metrics: Connection refused; start a collector there, "
            "or change OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
        ),
    ]
    for name in ("prometheus", "jsonl", "profiler", "otel"):
        wrong = [said for said in remarks(checked, name) if said.startswith("! ")]
        assert all(f"{name}: {said[2:]}" in checked["problems"] for said in wrong)
    assert not (tmp_path / "file").is_dir()


def test_where_nothing_is_wrong_it_says_where_things_would_be(tmp_path: Path) -> None:
    answered = jaxobs(
        "check", folder=tmp_path, JAXOBS_CACHE_DIRECTORY=str(tmp_path), JAXOBS_JSONL_DIRECTORY="events",
        SLURM_LOCALID="3", OTEL_EXPORTER_PROMETHEUS_PORT="23464", JAXOBS_PEAK_FLOPS='{"float32": 1e12}',
        JAXOBS_PEAK_BYTES_PER_SECOND="1e10",
    )  # fmt: skip
    assert "  metrics would be at http://localhost:23467/metrics\n" in answered.stdout
    assert f"  events would be written to {tmp_path / 'events'}\n" in answered.stdout
    assert answered.stdout.endswith("nothing needs attention\n")
    assert answered.status == 0
    assert list(tmp_path.iterdir()) == []


class Sound(Exporter):
    def export(self, batch: Any) -> None: ...


class Asked(Collector):
    def collect(self) -> Any:
        return ()


class _Breaks(Sound):
    def check(self, settings: Any) -> Any:
        raise SystemExit(3)


class _Tells(Sound):
    def check(self, settings: Any) -> Any:
        yield Remark(f"rank {settings['rank_on_host']} sends to https://name:word@host/", problem=True)


def test_a_check_of_a_plugin_that_fails_is_a_problem_of_that_plugin_and_credentials_are_masked() -> None:
    plain = {"rank_on_host": 2}
    broken, telling = (
        {"name": name, "error": None, "remarks": remarks_of(Found(EXPORTERS, name, "", "", plugin), plain)}
        for name, plugin in (("broken", _Breaks()), ("telling", _Tells()))
    )
    assert problems_of([broken, telling]) == [
        "broken: its check failed: SystemExit: 3",
        f"telling: rank 2 sends to https://{MASK}@host/",
    ]


class _TwoDevices(Asked):
    def devices_present(self) -> tuple[str, ...]:
        return ("NVIDIA H100", "NVIDIA H100")


class _Broken(Asked):
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
    rows = peak_rows(peaks_for("NVIDIA H100 80GB HBM3", "gpu").to_dict())
    assert any(what == "bfloat16 matrix" and source.startswith("datasheet: ") for what, _, source in rows)
