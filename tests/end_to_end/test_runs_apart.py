"""Runs that follow each other on one port, and ranks of one run, stay apart in a real Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.beside import free_port
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
