"""Settings that cannot be used are refused, in words that say what can."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import jaxobs
from jaxobs.config import (
    ELEMENT_TYPES,
    SETTINGS,
    Settings,
    SettingsError,
    load_settings,
    origin,
    unknown_settings,
)
from jaxobs.model.profile import LARGEST_TRACE
from jaxobs.plugin.settings import read, setting
from jaxobs.probe.transport.backlog import MAX_WAITING_BYTES
from jaxobs.proto.element_types import ELEMENT_TYPES as OF_XLA
from jaxobs.proto.element_types import Kind
from jaxobs.vocabulary.text import MASK


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("bfloat17", "bfloat16"), ("bf16", "bfloat16"), ("Float64", "float64")],
)
def test_a_peak_of_a_type_that_does_not_exist_is_refused_with_the_nearest_that_does(
    monkeypatch: pytest.MonkeyPatch, wrong: str, meant: str
) -> None:
    monkeypatch.setenv("JAXOBS_PEAK_FLOPS", f'{{"{wrong}": 1e14}}')
    with pytest.raises(SettingsError, match="environment variable JAXOBS_PEAK_FLOPS=") as raised:
        load_settings()
    assert f"unknown element type {wrong!r} (did you mean {meant!r}?); known are float64, " in str(
        raised.value
    )


@pytest.mark.parametrize("rate", ["0", "-1e14"])
def test_a_peak_that_is_not_more_than_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, rate: str) -> None:
    monkeypatch.setenv("JAXOBS_PEAK_FLOPS", f'{{"float32": 1e14, "bfloat16": {rate}}}')
    with pytest.raises(SettingsError, match="the peak of bfloat16 must be more than 0"):
        load_settings()


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


def test_no_larger_trace_is_asked_for_than_is_read_and_can_wait_for_the_agent() -> None:
    assert load_settings(profile_maximum_bytes=LARGEST_TRACE).profile_maximum_bytes == LARGEST_TRACE
    with pytest.raises(
        SettingsError,
        match=f"profile_maximum_bytes={LARGEST_TRACE + 1}.*must be a whole number from 0 to {LARGEST_TRACE} ",
    ):
        load_settings(profile_maximum_bytes=LARGEST_TRACE + 1)
    assert LARGEST_TRACE <= MAX_WAITING_BYTES


def test_only_a_name_that_is_close_is_suggested() -> None:
    environment = {"JAXOBS_NONSENSE": "1", "JAXOBS_INTERVL": "3", "jaxobs_interval": "2"}
    assert unknown_settings(environment) == {
        "JAXOBS_INTERVL": "unknown setting JAXOBS_INTERVL (did you mean JAXOBS_INTERVAL?)",
        "JAXOBS_NONSENSE": "unknown setting JAXOBS_NONSENSE",
    }


@dataclass(frozen=True)
class Every:
    """A setting of each type that there is."""

    flag: bool = False
    whole: int = setting(3, "how many", minimum=1, maximum=2_000)
    number: float = setting(0.5, "how much", minimum=0)
    word: str = ""
    place: Path = Path("/")
    peaks: dict[str, float] = setting({}, "peaks")
    perhaps: float | None = None
    api_token: int = setting(0, "a secret")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("flag", " Yes", True), ("flag", "0", False), ("whole", "2_000", 2000), ("number", "1e-3", 0.001),
        ("word", "a b", "a b"), ("place", "~/x", Path("~/x")),
        ("peaks", '{"a": 1}', {"a": 1.0}), ("perhaps", "2", 2.0),
    ],
)  # fmt: skip
def test_each_type_is_read_from_text_and_taken_as_python_has_it(name: str, text: str, value: Any) -> None:
    variables = {f"X_{name.upper()}": text, f"x_{name}": "of another case, which does not win"}
    read_one = read(Every, "X_", {}, variables)
    assert getattr(read_one, name) == value
    assert type(getattr(read_one, name)) is type(value)
    assert read(Every, "X_", {name: value}, {}) == read(Every, "X_", {name: value}, variables) == read_one
    assert read(Every, "X_", {name: None}, variables) == read_one  # an argument that was not given


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(Every, "X_", {}, {"X_WHOLE": "", "X_PERHAPS": ""}) == Every()
    monkeypatch.setenv("JAXOBS_ENABLED", "")
    monkeypatch.setenv("JAXOBS_RUN_DIRECTORY", "")
    assert load_settings().run_directory is None
    assert origin("enabled") == "default"


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("flag", "maybe", "must be true or false"), ("whole", "3.5", "must be a whole number from 1 to 2000 (how many)"),
        ("whole", "9" * 5_000, "must be a whole number from 1"),
        ("number", "nan", "must be a number of at least 0 (how"), ("number", "-1", "must be a number of at least 0"),
        ("peaks", "{", "must be a JSON object of numbers"), ("peaks", '{"a": true}', "must be a JSON object of numbers"),
        ("peaks", "[" * 100_000, "must be a JSON object"), ("peaks", "[1]", "must be a JSON object"),
        ("perhaps", " ", "must be a number"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_is_named_with_what_is_allowed(
    name: str, text: str, allowed: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        read(Every, "X_", {}, {f"X_{name.upper()}": text})
    assert str(raised.value).startswith(f"environment variable X_{name.upper()}={text!r:.200}")
    assert f": {allowed}" in str(raised.value)
    assert len(str(raised.value)) < 400


def test_all_wrong_settings_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAXOBS_INTERVAL", "0")
    monkeypatch.setenv("JAXOBS_ENABLED", "perhaps")
    with pytest.raises(SettingsError) as raised:
        load_settings(run=3, intervall=1)
    about = {name: f" ({SETTINGS[name].description})" for name in ("enabled", "run", "interval")}
    assert str(raised.value).split("; ") == [
        "unknown setting 'intervall' (did you mean 'interval'?)",
        "environment variable JAXOBS_ENABLED='perhaps': must be true or false" + about["enabled"],
        "argument run=3: must be a text" + about["run"],
        "environment variable JAXOBS_INTERVAL='0': must be a number from 0.05 to 60" + about["interval"],
    ]


@pytest.mark.parametrize(
    ("model", "prefix", "variables"),
    [
        (Every, "X_", {"X_API_TOKEN": "s3cret"}),
        (Settings, "JAXOBS_", {"JAXOBS_METRICS_HOSTS": "https://me:s3cret@host"}),
    ],
)
def test_no_secret_is_in_a_message(model: type, prefix: str, variables: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as raised:
        read(model, prefix, {}, variables)
    assert "s3cret" not in str(raised.value)
    assert MASK in str(raised.value)
