"""Settings that cannot be used are refused, in words that say what can."""

from __future__ import annotations

from pathlib import Path

import pytest

import jaxobs
from jaxobs.config import SettingsError, load_settings, unknown_settings
from jaxobs.cost_model.hlo.element_types import ELEMENT_TYPES as OF_XLA
from jaxobs.cost_model.hlo.element_types import Kind
from jaxobs.hardware.element_type_names import ELEMENT_TYPES, checked_element_type
from jaxobs.model.profile import LARGEST_TRACE
from jaxobs.probe.transport.payloads import MOST_WAITING_BYTES


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("bfloat17", "bfloat16"), ("fp32", "float32"), ("bf16", "bfloat16"), ("TF32", "tensorfloat32"),
     ("Float64", "float64"), ("fp8", "float8")],
)  # fmt: skip
def test_a_peak_of_a_type_that_does_not_exist_is_refused_with_the_nearest_that_does(
    monkeypatch: pytest.MonkeyPatch, wrong: str, meant: str
) -> None:
    monkeypatch.setenv("JAXOBS_PEAK_FLOPS", f'{{"{wrong}": 1e14}}')
    with pytest.raises(SettingsError, match="environment variable JAXOBS_PEAK_FLOPS=") as raised:
        load_settings()
    assert f"unknown element type {wrong!r} (did you mean {meant!r}?); known are float64, " in str(
        raised.value
    )


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"JAXOBS_ENABLED": "0"}, "jaxobs is switched off (JAXOBS_ENABLED)"),
        ({"OTEL_SDK_DISABLED": "True"}, "jaxobs is switched off (OTEL_SDK_DISABLED)"),
        (
            {"OTEL_SDK_DISABLED": "true", "JAXOBS_ENABLED": "false"},
            "jaxobs is switched off (JAXOBS_ENABLED)",
        ),
    ],
)
def test_a_variable_turns_it_off_altogether_and_is_named(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], why: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with jaxobs.instrument() as observer:
        assert observer.has_ended
        assert observer.address is None
        assert observer.snapshot().to_dict()["process_reason"] == why


def test_jaxobs_may_be_on_where_the_sdk_of_opentelemetry_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert not load_settings().enabled
    assert load_settings(enabled=True).enabled
    monkeypatch.setenv("JAXOBS_ENABLED", "1")
    assert load_settings().enabled


def test_the_certificate_is_the_same_file_after_the_job_changes_its_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings(metrics_tls_certificate="own.pem").metrics_tls_certificate == tmp_path / "own.pem"


def test_a_type_like_no_other_is_refused_with_the_list() -> None:
    with pytest.raises(SettingsError, match="unknown element type 'quux'; known are float64, float32, "):
        load_settings(peak_flops={"quux": 1.0})


def test_every_floating_type_that_a_module_can_have_may_have_a_peak() -> None:
    floating = {known.name for known in OF_XLA.values() if known.kind in {Kind.REAL, Kind.COMPLEX}}
    assert floating <= set(ELEMENT_TYPES)
    assert load_settings(peak_flops=dict.fromkeys(ELEMENT_TYPES, 1.0)).peak_flops.keys() == set(ELEMENT_TYPES)
    assert checked_element_type("bfloat16") == "bfloat16"


def test_no_larger_trace_is_asked_for_than_is_read_and_can_wait_for_the_agent() -> None:
    assert load_settings(profile_maximum_bytes=LARGEST_TRACE).profile_maximum_bytes == LARGEST_TRACE
    with pytest.raises(SettingsError, match=f"profile_maximum_bytes={LARGEST_TRACE + 1}.*less than or equal"):
        load_settings(profile_maximum_bytes=LARGEST_TRACE + 1)
    assert LARGEST_TRACE <= MOST_WAITING_BYTES


def test_only_a_name_that_is_close_is_suggested() -> None:
    environment = {"JAXOBS_NONSENSE": "1", "JAXOBS_INTERVL": "3", "jaxobs_interval": "2"}
    assert unknown_settings(environment) == {
        "JAXOBS_INTERVL": "unknown setting JAXOBS_INTERVL (did you mean JAXOBS_INTERVAL?)",
        "JAXOBS_NONSENSE": "unknown setting JAXOBS_NONSENSE",
    }
