"""`jaxobs plugins` lists every plugin, and why one cannot be loaded."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from benchmarks.beside import install
from tests.cli.launched import environment, jaxobs, outcome


def installed(folder: Path, module: str, entry_points: dict[str, str]) -> str:
    """A PYTHONPATH on which a distribution of that module is found."""
    install(folder, "broken_plugin", module, entry_points)
    return f"{folder}{os.pathsep}{environment()['PYTHONPATH']}"


def test_a_broken_plugin_is_reported_and_the_others_are_listed(tmp_path: Path) -> None:
    lines = "empty = broken_plugin:Empty\nleaves = broken_plugin:leaves\nabsent = no_such_module:Plugin"
    path = installed(
        tmp_path / "installed",
        "import sys\nclass Empty: pass\ndef leaves(): sys.exit(4)\n",
        {"jaxobs.collectors": lines},
    )
    answered = outcome([sys.executable, "-m", "jaxobs", "plugins", "--json"], tmp_path, PYTHONPATH=path)
    plugins = {plugin["name"]: plugin for plugin in json.loads(answered.stdout)}
    assert answered.status == 1
    assert plugins["host"]["state"] == "loaded"
    assert "jaxobs_process_resident_bytes" in plugins["host"]["metrics"]
    refused = "Empty is not derived from Collector: write `class Empty(Collector)`"
    assert plugins["empty"]["error"].startswith(refused)
    assert plugins["empty"]["distribution"] == "broken_plugin 1.0"
    assert plugins["leaves"]["error"] == "SystemExit: 4"
    assert "no_such_module" in plugins["absent"]["error"]
    text = outcome([sys.executable, "-m", "jaxobs", "plugins"], tmp_path, PYTHONPATH=path).stdout
    assert "empty = broken_plugin:Empty: Empty is not derived from Collector" in text


def test_the_built_in_plugins_load(tmp_path: Path) -> None:
    answered = jaxobs("plugins", "--json", folder=tmp_path)
    plugins = json.loads(answered.stdout)
    errors = {
        plugin["name"]: plugin["error"] for plugin in plugins if plugin["distribution"].startswith("jaxobs ")
    }
    assert errors.keys() >= {"compile", "host", "nvidia", "prometheus", "otel", "jsonl"}
    assert set(errors.values()) == {None}
