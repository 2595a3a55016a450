"""Two runs after each other on one port and four ranks at once, scraped by a real Prometheus with our rules."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.beside import free_ports, without_settings
from grafana.source.chart import Chart, Query
from tests.prometheus_server import EXEMPLARS, PrometheusServer
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
JOB = Path(__file__).with_name("job.py")
RULES = ROOT / "deploy" / "prometheus"
RANKS = 4
RATE_INTERVAL = 20
"""Seconds: Grafana's $__rate_interval is at least four times the scrape interval, here one second, and the samples of a
busy machine come late."""

RUNS_ASKED_APART = 15
"""Seconds between the moments at which the choice of runs looks for those that ended: one of them meets the first run, as
where Prometheus scrapes so rarely."""

PEAKS = {
    "JAXOBS_PEAK_FLOPS": '{"float32": 1e12, "bfloat16": 2e12}',
    "JAXOBS_PEAK_BYTES_PER_SECOND": "2e11",
}
"""A CPU has no peaks until it is calibrated. Far above what a test machine does: what is above a peak is withheld."""


class Job:
    """One training process."""

    def __init__(self, folder: Path, name: str, **environment: str) -> None:
        self.errors = folder / f"{name}.errors"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(JOB)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={
                    **without_settings(), **PEAKS, "JAX_PLATFORMS": "cpu",
                    "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}",
                    "JAX_COMPILATION_CACHE_DIR": str(folder / f"cache-{name}"),
                    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", **environment,
                },
            )  # fmt: skip

    def trained(self) -> dict[str, Any]:
        """The snapshot at the end of its training; it goes on serving."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors.read_text()
        said: dict[str, Any] = json.loads(line)
        snapshot: dict[str, Any] = said["snapshot"]
        return snapshot

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.communicate("\n", timeout=60)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def start_prometheus(binary: Path, folder: Path, targets: Path, static: int) -> PrometheusServer:
    """Scrapes a fixed port and what the files in `targets` name, as the README says."""
    rules = [path for path in (RULES / "rules.yml", RULES / "alerts.yml") if path.exists()]
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            {"job_name": "jax", "static_configs": [{"targets": [f"localhost:{static}"]}]},
            {"job_name": "jax-ranks", "honor_labels": True,
             "file_sd_configs": [{"files": [f"{targets}/*.json"], "refresh_interval": "1s"}]},
        ],
    }  # fmt: skip
    return PrometheusServer(binary, folder, json.dumps(configuration), EXEMPLARS)


@dataclass
class Scraped:
    """What was seen, and how a panel's query is asked of it as Grafana asks."""

    prometheus: PrometheusServer
    start: float
    end: float
    static_instance: str
    snapshots: dict[str, dict[str, Any]]
    """By run, or by run and rank."""
    jobs: dict[str, Job]
    """Those that still serve, by the same names."""

    def run_id(self, name: str) -> str:
        """As its variable puts it in where the run of this name is chosen."""
        info = f'max by (run_id) (last_over_time(jaxobs_run_info{{run="{name}"}}[1h]))'
        (found,) = self.prometheus.query(info)
        return str(found["metric"]["run_id"])

    def expression(self, text: str, chosen: Mapping[str, str] | None = None) -> str:
        chosen = {key: self.run_id(value) if key == "run" else value for key, value in (chosen or {}).items()}
        values = {
            "__interval": "5s", "__rate_interval": f"{RATE_INTERVAL}s", "__range": f"{math.ceil(self.end - self.start)}s",
            **dict.fromkeys(("job", "instance"), ".+"),
            **dict.fromkeys(("run", "loop", "device", "dtype"), ".*"), "device_kind": "cpu", **chosen,
        }  # fmt: skip
        return re.sub(r"\$([a-z_]+)", lambda found: values[found.group(1)], text)

    def ask(self, query: Query, chosen: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """The series of the answer."""
        expression = self.expression(query.promql, chosen)
        if query.table:
            answer = self.prometheus.get("query", query=expression, time=f"{self.end}")
        else:
            answer = self.prometheus.get(
                "query_range", query=expression, start=f"{self.start}", end=f"{self.end}", step="1"
            )
        found: list[dict[str, Any]] = answer["result"]
        return found

    def frames(self, chart: Chart, chosen: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """The answers to all queries of a panel, for Grafana's own code to take on from."""
        return [
            {"refId": query.name, "table": query.table or query.rows_over_time, "legend": query.legend,
             "result": self.ask(query, chosen)}
            for query in chart.queries
        ]  # fmt: skip


def has_values(series: Mapping[str, Any]) -> bool:
    """A number in it is one, and not NaN."""
    samples = series.get("values") or [series["value"]]
    return any(not math.isnan(float(value)) for _, value in samples)


def up(prometheus: PrometheusServer, wanted: int) -> bool:
    return len(prometheus.query("jaxobs_run_info")) == wanted


def scrape(binary: Path, folder: Path, otlp: str) -> Scraped:
    """Both stories, told to the end; the jobs of the second still serve. The endpoint `otlp` gets the first's traces."""
    targets = folder / "targets"
    targets.mkdir()
    static, coordinator = free_ports(2)
    prometheus = start_prometheus(binary, folder, targets, static)
    start = time.time()
    fixed = {"OTEL_EXPORTER_PROMETHEUS_PORT": str(static)}
    traces = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{otlp}/v1/traces"}
    evening = Job(folder, "evening", JAXOBS_RUN="evening", **fixed, **traces)
    snapshots = {"evening": evening.trained()}
    wait_for(lambda: up(prometheus, 1), "the first run in Prometheus")
    time.sleep(RUNS_ASKED_APART)
    evening.end()
    jobs = {"night": Job(folder, "night", JAXOBS_RUN="night", **fixed)} | {
        f"fleet {rank}": Job(
            folder, f"rank{rank}", JAXOBS_RUN="fleet", COORDINATOR=f"localhost:{coordinator}", RANKS=str(RANKS),
            RANK=str(rank),
            JAXOBS_FILE_SD_DIRECTORY=str(targets), OTEL_EXPORTER_PROMETHEUS_PORT="0",
            SLOWDOWN="3" if rank == RANKS - 1 else "1")
        for rank in range(RANKS)
    }  # fmt: skip
    snapshots |= {name: job.trained() for name, job in jobs.items()}
    wait_for(lambda: up(prometheus, 1 + RANKS), "all ranks in Prometheus")
    time.sleep(3)
    instance = f"localhost:{static}"
    return Scraped(prometheus, start, time.time(), instance, snapshots, jobs)
