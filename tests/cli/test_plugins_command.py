"""`jaxobs plugins` lists every plugin, and why one cannot be loaded."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from launched import environment, jaxobs, outcome


def install(folder: Path, module: str, entry_points: str) -> str:
    """A distribution as pip would leave it; returns a PYTHONPATH on which it is found."""
    information = folder / "broken-3.1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 3.1\n")
    (information / "entry_points.txt").write_text(entry_points)
    (folder / "broken_plugin.py").write_text(module)
    return f"{folder}{os.pathsep}{environment()['PYTHONPATH']}"


def test_a_broken_plugin_is_reported_and_the_others_are_listed(tmp_path: Path) -> None:
    path = install(
        tmp_path / "installed",
        "import sys\nclass Empty: pass\ndef leaves(): sys.exit(4)\n",
        "[jaxobs.collectors]\nempty = broken_plugin:Empty\nleaves = broken_plugin:leaves\n"
        "absent = no_such_module:Plugin\n",
    )
    answered = outcome([sys.executable, "-m", "jaxobs", "plugins", "--json"], tmp_path, PYTHONPATH=path)
    plugins = {plugin["name"]: plugin for plugin in json.loads(answered.stdout)}
    assert answered.status == 1
    assert plugins["host"]["state"] == "loaded"
    assert "jaxobs_process_resident_bytes" in plugins["host"]["metrics"]
    refused = "Empty is not derived from Collector: write `class Empty(Collector)`"
    assert plugins["empty"]["error"].startswith(refused)
    assert plugins["empty"]["distribution"] == "broken 3.1"
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
