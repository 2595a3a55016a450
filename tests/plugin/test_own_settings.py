"""Settings that plugins of others declare: read from their own variables, wrong ones named with what is allowed."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jaxobs.config import SETTINGS, unknown_settings
from jaxobs.plugin.discovery import COLLECTORS, EXPORTERS, PROBES, Found, discover
from jaxobs.plugin.settings import read_of_plugin, unknown_variables
from jaxobs.testing import check_collector, check_exporter, check_probe

GROUPS = {"example": PROBES, "example_disk": COLLECTORS, "example_report": EXPORTERS}


@pytest.fixture
def installed(example_plugin_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Loads a plugin of the example distribution by its name."""
    monkeypatch.syspath_prepend(str(example_plugin_path))
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.startswith("jaxobs_example")]:
        monkeypatch.delitem(sys.modules, name)

    def load(name: str) -> Found:
        (found,) = [found for found in discover(GROUPS[name]) if found.name == name]
        return found

    return load


def test_the_examples_pass_the_checks_that_they_show(
    installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAXOBS_EXAMPLE_REPORT_FILE", str(tmp_path / "report.json"))
    check_probe(installed("example").plugin)
    (free,) = check_collector(installed("example_disk").plugin)
    assert free.labels == ("/",)
    check_exporter(installed("example_report").plugin)
    assert (tmp_path / "report.json").read_text() == "{}"


def test_a_setting_is_read_from_the_variable_of_the_plugin(
    installed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAXOBS_EXAMPLE_SPAN_GENERATION", "1")
    monkeypatch.setenv("JAXOBS_EXAMPLE_DISK_DIRECTORY", str(tmp_path))
    assert installed("example").plugin.settings.span_generation == 1
    (free,) = check_collector(installed("example_disk").plugin)
    assert free.labels == (str(tmp_path),)


@dataclass(frozen=True, slots=True)
class InSlots:
    limit: int = 3


def test_settings_may_lie_in_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAXOBS_EXAMPLE_LIMIT", "5")
    assert read_of_plugin("example", InSlots()) == InSlots(5)


@pytest.mark.parametrize(
    ("plugin", "variable", "value", "said"),
    [
        (
            "example",
            "JAXOBS_EXAMPLE_SPAN_GENERATION",
            "3",
            "='3': must be a whole number from 0 to 2 (collections of",
        ),
        ("example", "JAXOBS_EXAMPLE_SPAN_GENERATION", "old", "='old': must be a whole number from 0 to 2"),
        ("example_disk", "JAXOBS_EXAMPLE_DISK_DIRECTORY", "data", "='data' is no absolute path"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_what_is_allowed(
    installed: Any, monkeypatch: pytest.MonkeyPatch, plugin: str, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    found = installed(plugin)
    assert found.plugin is None
    assert found.error.startswith(f"environment variable {variable}{said}")


def test_a_variable_that_means_nothing_is_told_with_what_was_meant(installed: Any) -> None:
    declared = [(name, installed(name).plugin.settings) for name in GROUPS]
    environment = {
        "JAXOBS_EXAMPLE_SPAN_GENERATION": "1", "JAXOBS_EXAMPLE_SPAN_GENERATIONS": "1", "JAXOBS_EXAMPLE_REPORT_FILE": "/a",
        "JAXOBS_EXAMPLE_REPORT_COLOUR": "red", "JAXOBS_INTERVAL": "1", "JAXOBS_INTERVALL": "1",
    }  # fmt: skip
    assert unknown_variables(declared, environment, SETTINGS) == [
        "unknown setting JAXOBS_EXAMPLE_REPORT_COLOUR",
        "unknown setting JAXOBS_EXAMPLE_SPAN_GENERATIONS (did you mean JAXOBS_EXAMPLE_SPAN_GENERATION?)",
    ]
    found = [installed(name) for name in GROUPS]
    # As `jaxobs check` tells it.
    own = [(each.name, each.plugin.settings) for each in found if each.has_own_variables]
    assert len(unknown_variables(own, environment, SETTINGS)) == 2
    # What is the plugins' is left to them, and nothing else is.
    assert unknown_settings(environment).keys() == {"JAXOBS_INTERVALL"}
