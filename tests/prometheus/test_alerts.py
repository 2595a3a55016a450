"""The alert rules: well formed, firing when they must and only then, and on metrics that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.plugin.discovery import COLLECTORS, EXPORTERS, PROBES, discover

FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"
ALERTS, RULES = FOLDER / "alerts.yml", FOLDER / "rules.yml"
RUNBOOK = FOLDER.parents[1] / "docs" / "runbook.md"
DASHBOARDS = FOLDER.parents[1] / "grafana" / "dashboards"
CASES = sorted(Path(__file__).parent.glob("alerts*_test.yml"))


def _alerts() -> list[str]:
    """The text of each alert."""
    return re.split(r"^      - alert: ", ALERTS.read_text(), flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("file", [ALERTS, RULES])
def test_the_rules_are_well_formed(promtool: Path, file: Path) -> None:
    done = subprocess.run(
        [promtool, "check", "rules", "--lint-fatal", str(file)],
        capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{file.read_text().count('expr: ')} rules found" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_each_alert_fires_when_it_must_and_only_then(promtool: Path, tmp_path: Path, file: Path) -> None:
    cases = tmp_path / file.name
    cases.write_text(file.read_text().replace("- ALERTS", f"- {ALERTS}").replace("- RULES", f"- {RULES}"))
    done = subprocess.run(
        [promtool, "test", "rules", str(cases)], capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_collector_passes_on_the_times_that_the_rules_ask_for() -> None:
    assert "timestamp(jaxobs_job_last_heard_timestamp_seconds)" in RULES.read_text()
    configuration = yaml.safe_load((FOLDER.parent / "collector" / "config.yaml").read_text())
    assert configuration["exporters"]["prometheus"]["send_timestamps"] is True


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    text = "".join(file.read_text() for file in CASES)
    named = re.findall(r'ALERTS\{alertname="(\w+)".*\n +exp_samples:( \[\])?', text)
    alerts = {text.split("\n", 1)[0] for text in _alerts()}
    assert alerts
    assert {name for name, none in named if none} == alerts
    assert {name for name, none in named if not none} == alerts


def test_every_alert_leads_to_its_section_of_the_runbook_and_to_a_dashboard() -> None:
    headings = set(re.findall(r"^## (\w+)$", RUNBOOK.read_text(), flags=re.MULTILINE))
    assert headings == {text.split("\n", 1)[0] for text in _alerts()}
    for text in _alerts():
        name = text.split("\n", 1)[0]
        assert f"runbook_url: /docs/runbook.md#{name.lower()}\n" in text
        (dashboard,) = re.findall(r'dashboard_url: "/d/([\w-]+)\?var-run={{ \$labels.run_id }}"', text)
        assert (DASHBOARDS / f"{dashboard}.json").exists()


def test_every_metric_named_in_the_rules_exists_with_its_labels() -> None:
    catalogue = {metric.name: metric for metric in CORE_METRICS}
    for group in (PROBES, COLLECTORS, EXPORTERS):
        for found in discover(group):
            catalogue |= {metric.name: metric for metric in found.plugin.metrics}
    text = ALERTS.read_text() + RULES.read_text()
    recorded = set(re.findall(r"- record: (\S+)", text))
    assert set(re.findall(r"\b\w+:jaxobs_\w+:\w+", text)) == recorded
    names = {name.removesuffix("_bucket") for name in re.findall(r"(?<![:\w])jaxobs_[a-z0-9_]+", text)}
    assert len(names) >= 15
    assert names - {"jaxobs_run_id"} <= set(catalogue)  # a label of targets
    for name, label in re.findall(r"(?<![:\w])(jaxobs_[a-z0-9_]+)\{(\w+)", text):
        assert label in catalogue[name].labels
    assert "cause" in catalogue["jaxobs_recompilation_seconds_total"].labels
    assert "function" in catalogue["jaxobs_compiling_seconds"].labels
