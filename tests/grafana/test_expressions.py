"""What panels show of ranks that differ, asked of promtool on made series."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from grafana.source.annotations import ANNOTATIONS
from grafana.source.pages import PAGES
from tests.grafana.test_dashboards import CHARTS, catalogue

VALUES = {
    "__rate_interval": "1m",
    "__range": "5m",
    "job": ".+",
    "instance": ".+",
    "run": ".*",
    "loop": ".*",
    "device": ".*",
}
FOUR_RANKS = {
    f'jaxobs_run_info{{job="jax", instance="{rank}", run="r", run_id="1", rank="{rank}", host="n{rank}"}}': "1x80"
    for rank in range(4)
}
EVALUATION = 'jaxobs_phase_seconds_total{job="jax", instance="0", phase="evaluation"}'
COMPONENT = 'jaxobs_step_component_seconds_total{job="jax", instance="0", loop="train", component='
PROVENANCE = 'jaxobs_device_peak_info{job="jax", instance="0", device="0", dtype="bfloat16", provenance="datasheet", pod='
MISSING = "jaxobs_nccl_missing_info"
MEMBER = 'communicator="c", member="13", host="n7", pid="4711"'


def at_line(rank: int, line: str, activity: str) -> str:
    """The series of a rank's samples at a line."""
    labels = f'job="jax", instance="{rank}", loop="train", line="{line}", waits_in="", activity="{activity}"'
    return f"jaxobs_host_line_sampled_seconds_total{{{labels}}}"


CASES: Mapping[str, tuple[str, int, Mapping[str, str], Mapping[str, float]]] = {
    "one rank of four evaluates, for 30 % of its time": (
        "Phases", 0, {EVALUATION: "0+4.5x80"}, {'phase="evaluation"': 0.075},
    ),
    "a line that is seen on a processor and waiting has both": (
        "What the main thread does itself", 0,
        {at_line(rank, "load.py:1", activity): values
         for rank in range(4) for activity, values in (("processor", "0+9x80"), ("waiting", "0+6x80"))},
        {'loop="train", line="load.py:1"': 1.0},
    ),
    "ranks at different lines are at each for their share of all": (
        "What the main thread does itself", 0,
        {at_line(0, "save.py:1", "waiting"): "0+15x80", at_line(1, "load.py:1", "processor"): "0+15x80"},
        {'loop="train", line="save.py:1"': 0.25, 'loop="train", line="load.py:1"': 0.25},
    ),
    "a step that is longer than the interval is known at its end, and is no more than all of it": (
        "Where the second went", 0,
        {f'{COMPONENT}"input"}}': "0x39 240x40", f'{COMPONENT}"compute"}}': "0x39 360x40"},
        {'loop="train", component="input"': 0.4, 'loop="train", component="compute"': 0.6},
    ),
    "a rank that NCCL misses is on its own host, not on that of the rank that was asked": (
        "Ranks that NCCL misses", 2, {f'{MISSING}{{job="jax", instance="0", {MEMBER}}}': "1x80"}, {MEMBER: 1.0},
    ),
    "ranks that share a board take its energy once, for the tokens of all loops": (
        "Energy a token", 0,
        {f'jaxobs_nvidia_energy_joules_total{{job="jax", instance="{rank}", device="0", uuid="{board}"}}': "0+1500x80"
         for rank, board in enumerate(("a", "a", "b", "b"))}
        | {f'jaxobs_tokens_total{{job="jax", instance="{rank}", loop="{loop}"}}': values
           for rank in range(4) for loop, values in (("train", "0+15x80"), ("eval", "0+5x80"))},
        {"": 37.5},
    ),
    "a loop that ended while its last steps were charged has no step of infinite time": (
        "Where the step went", 0,
        {f'{COMPONENT}"compute"}}': "0+15x35 600x45",
         'jaxobs_steps_total{job="jax", instance="0", loop="train"}': "0+15x34 510x46"}, {},
    ),
    "an error of minutes ago is counted still": (
        "Errors", 2,
        {'jaxobs_nvidia_xid_events_total{job="jax", instance="0", device="0", uuid="a"}': "0x20 1x60"},
        {'rank="0", instance="0", device="0"': 1.0},
    ),
    "a peak's provenance is passed on by the Collector that was, and by the one in a new pod": (
        "Peaks", 0,
        {'jaxobs_device_peak_flops_per_second{job="jax", instance="0", device="0", dtype="bfloat16"}': "2x80",
         f'{PROVENANCE}"before"}}': "1x38 _x42", f'{PROVENANCE}"after"}}': "_x39 1x41"},
        {'device="0", dtype="bfloat16", provenance="datasheet"': 2.0},
    ),
    "where no executable ran in the chosen time none has a share of it": (
        "Executables", 2,
        {'jaxobs_executable_seconds_total{job="jax", instance="0", function="f", executable="e"}': "7x80"}, {},
    ),
}  # fmt: skip
"""What is shown: title and number of the query; series beside those of the ranks; what is answered after ten minutes."""


@pytest.mark.parametrize("case", CASES)
def test_the_panel_shows(promtool: Path, tmp_path: Path, case: str) -> None:
    title, number, series, answer = CASES[case]
    (chart,) = [chart for chart in CHARTS if chart.title == title]
    expression = re.sub(r"\$([a-z_]+)", lambda found: VALUES[found.group(1)], chart.queries[number].promql)
    made = [{"series": name, "values": values} for name, values in (FOUR_RANKS | dict(series)).items()]
    expected = [
        {"labels": f'{{run="r", run_id="1", {labels}}}', "value": value} for labels, value in answer.items()
    ]
    asked = {"expr": f"round({expression}, 0.001)", "eval_time": "10m", "exp_samples": expected}
    test = {"interval": "15s", "input_series": made, "promql_expr_test": [asked]}
    file = tmp_path / "case.yml"
    file.write_text(json.dumps({"tests": [test]}))
    done = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_label_that_a_metric_has_of_its_own_is_taken_from_its_process() -> None:
    labels = {name: set(metric.labels) for name, metric in catalogue().items()}
    expressions = [query.expression for chart in CHARTS for query in chart.queries]
    joined = [
        (name, set(given.split(", ")))
        for expression in (*expressions, *(each.expression for each in ANNOTATIONS))
        for name, given in re.findall(
            r"(jaxobs_\w+)\{[^{}]*\}[^{}]*? \* on \(job, instance\) group_left \(([^)]*)\)", expression
        )
    ]
    assert len(joined) > len(PAGES)
    assert [(name, given) for name, given in joined if labels.get(name, set()) & given] == []
