"""Runs that follow each other on one port, and ranks of one run, stay apart in a real Prometheus."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benchmarks.beside import free_port
from grafana.source.pages import PAGES
from tests.end_to_end.training import Training, prometheus_of
from tests.waiting import wait_for

FEW = """
with jaxobs.instrument() as obs:
    train(obs, 20)
    say(process=obs.snapshot(60).to_dict()["process"], address=obs.address)
    wait()
"""
SLURM = {"SLURM_JOB_ID": "812", "SLURM_JOB_NAME": "llama", "SLURM_RESTART_COUNT": "1", "USER": "ada"}


def test_two_runs_on_one_port_are_two_series_and_each_says_who_it_is(
    start_training: Callable[..., Training], prometheus_server_binary: Path, tmp_path: Path
) -> None:
    targets, port = tmp_path / "targets", str(free_port())
    server = prometheus_of(prometheus_server_binary, tmp_path, targets)
    shared = {"JAXOBS_FILE_SD_DIRECTORY": str(targets), "OTEL_EXPORTER_PROMETHEUS_PORT": port}

    def has_twenty_steps(run: str) -> bool:
        return server.value(f'jaxobs_steps_total{{jaxobs_run="{run}"}}') == 20

    try:
        addresses = []
        for run, more in (("first", {}), ("llama", SLURM)):
            name = {} if more else {"JAXOBS_RUN": run}
            training = start_training(FEW, **shared, **name, **more)
            heard = training.hear()
            addresses.append(heard["address"])
            assert heard["process"]["run"] == run
            wait_for(partial(has_twenty_steps, run), f"run {run}")
            found = server.query(f'jaxobs_run_info{{run="{run}"}}')
            (labels,) = [series["metric"] for series in found]
            assert (labels["jaxobs_run"], labels["jaxobs_rank"], labels["rank"]) == (run, "0", "0")
            assert labels.get("attempt") == ("1" if more else None)  # Prometheus drops an empty label
            assert labels["user"] == ("ada" if more else labels["user"])
            assert server.value(f'target_info{{jaxobs_run="{run}", jax_process_index="0"}}') == 1.0
            heard_at = server.value(f'jaxobs_job_last_heard_timestamp_seconds{{jaxobs_run="{run}"}}')
            assert heard_at is not None
            assert abs(time.time() - heard_at) < 10
            training.go_on()
            training.close()
        assert addresses[0] == addresses[1], "one port, one after the other"
        series = server.get(
            "series",
            **{"match[]": 'jaxobs_steps_total{jaxobs_rank="0"}', "start": str(time.time() - 600)},
        )
        assert {found["jaxobs_run"] for found in series} == {"first", "llama"}
    finally:
        server.close()


RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules.yml"
SWEEP = "with jaxobs.instrument() as obs:\n    say(address=obs.address)\n    train(obs, 100_000, 0.1)\n"
ARRAY = {"SLURM_JOB_NAME": "sweep", "SLURM_ARRAY_JOB_ID": "900", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "1",
         "SLURM_PROCID": "0", "LOGNAME": "ada"}  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_sweep_and_two_users_of_one_script_are_runs_of_their_own(
    start_training: Callable[..., Training], prometheus_server_binary: Path, tmp_path: Path
) -> None:
    """Five as a shell's loop starts them, two of an array, and one of another user who gives the same name."""
    targets = tmp_path / "targets"
    server = prometheus_of(prometheus_server_binary, tmp_path, targets, str(RULES))
    settings = {"JAXOBS_FILE_SD_DIRECTORY": str(targets), "JAXOBS_HOST_LINES": "false", "LOGNAME": "ada"}
    more = [{"JAXOBS_RUN": "wide", "WANDB_SWEEP_ID": "s1"}] * 5
    more += [ARRAY | {"SLURM_JOB_ID": f"90{task}", "SLURM_ARRAY_TASK_ID": str(task)} for task in (0, 1)]
    more += [{"JAXOBS_RUN": "wide", "LOGNAME": "bob"}]
    try:
        for each in [start_training(SWEEP, **settings | own) for own in more]:
            each.hear()
        recorded = "run_loop:jaxobs_steps:rate5m > 0"
        wait_for(lambda: len(server.query(recorded)) == len(more), "the rates of all runs", 120)

        def of_all(query: str) -> list[dict[str, str]]:
            """Once all are there: one that is not scraped in time, as so many processes want the machine, is missing."""
            found = [series["metric"] for series in server.query(query)]
            return found if len(found) >= len(more) else []

        info = wait_for(lambda: of_all("job_instance:jaxobs_run_info:max"), "what is recorded of all runs")
        assert len({each["run_id"] for each in info}) == len(info) == len(more)
        told = wait_for(lambda: of_all("jaxobs_run_info"), "who all runs are")
        who = Counter((each["run"], each["user"], each.get("experiment")) for each in told)
        array = {("sweep-0", "ada", "900"): 1, ("sweep-1", "ada", "900"): 1}
        assert who == {("wide", "ada", "s1"): 5, ("wide", "bob", None): 1} | array
        (chart,) = [chart for row in PAGES[0].rows for chart in row.charts if chart.title == "Step rate"]
        values = {"__rate_interval": "20s", "job": ".+", "instance": ".+", "run": ".+", "loop": ".*"}
        asked = re.sub(r"\$(\w+)", lambda found: values[found[1]], chart.queries[0].promql)
        labels = re.findall(r"{{(\w+)}}", chart.queries[0].legend)
        of_lines = wait_for(lambda: of_all(asked), "the lines of all runs")
        lines = {tuple(metric[label] for label in labels) for metric in of_lines}
        assert len(lines) == len(more), lines
    finally:
        server.close()


def test_a_job_that_is_suspended_was_last_heard_of_when_it_was(
    start_training: Callable[..., Training],
) -> None:
    import signal
    import urllib.request

    training = start_training(FEW, OTEL_EXPORTER_PROMETHEUS_PORT="0")
    address = training.hear()["address"]

    def last_heard() -> float:
        page = urllib.request.urlopen(address, timeout=10).read().decode()
        lines = [line for line in page.splitlines() if line.startswith("jaxobs_job_last_heard_timestamp")]
        # The first page may be older than the first report.
        return float(lines[0].split()[1]) if lines else 0.0

    began = last_heard()
    wait_for(lambda: last_heard() > began, "the job is heard of again")
    training.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(1.5)  # what was on its way has arrived, and is on a page
        stopped = last_heard()
        time.sleep(2.5)
        assert last_heard() == stopped
    finally:
        training.process.send_signal(signal.SIGCONT)
    wait_for(lambda: last_heard() > stopped, "the job is heard of again")
    training.go_on()
