"""The alert rules: well formed, firing when they must and only then, and on metrics that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.plugin.discovery import COLLECTORS, EXPORTERS, PROBES, discover

ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"
CASES = Path(__file__).parent / "alerts_test.yml"


def test_the_rules_are_well_formed(promtool: Path) -> None:
    done = subprocess.run(
        [promtool, "check", "rules", "--lint-fatal", str(ALERTS)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 rules found" in done.stdout


def test_each_alert_fires_when_it_must_and_only_then(promtool: Path, tmp_path: Path) -> None:
    cases = tmp_path / "alerts_test.yml"
    cases.write_text(CASES.read_text().replace("ALERTS", str(ALERTS)))
    done = subprocess.run(
        [promtool, "test", "rules", str(cases)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case() -> None:
    alerts = set(re.findall(r"- alert: (\w+)", ALERTS.read_text()))
    assert alerts
    assert alerts == set(re.findall(r"alertname: (\w+)", CASES.read_text()))


def test_every_metric_named_in_the_rules_exists_with_its_labels() -> None:
    catalogue = {metric.name: metric for metric in CORE_METRICS}
    for group in (PROBES, COLLECTORS, EXPORTERS):
        for found in discover(group):
            catalogue |= {metric.name: metric for metric in found.plugin.metrics}
    text = ALERTS.read_text()
    names = set(re.findall(r"\bjaxobs_[a-z0-9_]+", text))
    assert len(names) >= 5
    assert names <= set(catalogue)
    for name, label in re.findall(r"\b(jaxobs_[a-z0-9_]+)\{(\w+)", text):
        assert label in catalogue[name].labels
    assert "cause" in catalogue["jaxobs_recompilation_seconds_total"].labels
    assert "function" in catalogue["jaxobs_compiling_seconds"].labels
