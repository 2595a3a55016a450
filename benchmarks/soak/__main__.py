"""Soak: a training job for N minutes with scrapes, recompiles, failing plugins and outages at random.

    python -m benchmarks.soak [--minutes 30] [--seed N]

A plain job runs beside the observed one, with the same steps and recompiles: what both grow by is JAX's. Exit status 1
where memory, descriptors or threads grew, where an event or a span is in no count or in two, or where a scrape failed.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.beside import install, job_environment
from benchmarks.costs.processes import agents_of
from benchmarks.soak.disturbances import Disturbances, Endpoint
from benchmarks.soak.verdict import Held, figures_of_counts, figures_of_growth, held_by
from benchmarks.truths import Figure, Table, options_of
from tests.waiting import wait_for

PLUGIN = Path(__file__).with_name("jaxobs_soak.py")
ENTRY_POINTS = {
    "jaxobs.probes": "soak = jaxobs_soak:Probe",
    "jaxobs.collectors": "soak_collector = jaxobs_soak:Collector",
    "jaxobs.exporters": "soak_witness = jaxobs_soak:Witness\nsoak_failing = jaxobs_soak:FailingExporter",
}

SAMPLE_SECONDS = 5.0
CALM_SECONDS = 75.0
"""At the end nothing fails for so long that all that waits is delivered: a plugin that was set aside is tried again after
60 s, an endpoint after 30 s."""

RING_CAPACITY = "256"
"""Small, so that it overflows while the agent is suspended: the job emits some 240 events a second, of which the pipe
holds the first few thousand."""


def start_job(folder: Path, seed: str, how: str, endpoint: str) -> subprocess.Popen[bytes]:
    """A job that is trained in the background."""
    settings = job_environment(
        folder / "plugin", JAXOBS_SHUTDOWN_TIMEOUT="20", JAXOBS_RING_CAPACITY=RING_CAPACITY,
        OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_METRIC_EXPORT_INTERVAL="5000", OTEL_BSP_SCHEDULE_DELAY="2000",
        SOAK_FOLDER=str(folder), SOAK_SEED=seed,
    )  # fmt: skip
    command = [sys.executable, "-m", "benchmarks.soak.job", str(folder), seed, how]
    return subprocess.Popen(command, env=settings)


def watch(processes: dict[str, psutil.Process], seconds: float) -> dict[str, list[Held]]:
    """Sample all processes for so long."""
    began, held = time.monotonic(), {name: list[Held]() for name in processes}
    while (elapsed := time.monotonic() - began) < seconds:
        for name, process in processes.items():
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                sys.exit(f"FAILED: {name} has ended after {elapsed / 60:.1f} minutes")
            held[name].append(held_by(process))
        time.sleep(SAMPLE_SECONDS)
    return held


def main() -> int:
    """Soak, and the verdict."""
    parser = options_of(__doc__, only=False)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)))
    options = parser.parse_args()
    print(f"soak: {options.minutes:g} minutes, --seed {options.seed}", flush=True)
    endpoint = Endpoint()
    with tempfile.TemporaryDirectory(prefix="jaxobs-soak-") as name:
        folder = Path(name)
        install(folder / "plugin", "jaxobs_soak", PLUGIN.read_text(), ENTRY_POINTS)
        job, plain = (start_job(folder, options.seed, how, endpoint.url) for how in ("observed", "plain"))
        agent = None
        try:
            address = wait_for((folder / "address").read_text, "the address of the job")
            (agent,) = agents_of(job.pid)
            processes = {"job": psutil.Process(job.pid), "plain": psutil.Process(plain.pid), "agent": agent}
            disturbances = Disturbances(options.seed, endpoint, address, agent)
            held = watch(processes, options.minutes * 60)
            disturbances.calm()
            (folder / "calm").touch()
            time.sleep(CALM_SECONDS)
            (folder / "end").touch()
            statuses = job.wait(60), plain.wait(60)
            agent.wait(30)
        finally:
            for process in (job, plain):
                process.kill()
            with contextlib.suppress(psutil.Error):
                if agent is not None:
                    agent.resume()  # a suspended one would never hear that its job is gone
        table, failures = Table(), disturbances.failures
        table.add("growth", figures_of_growth(held, options.minutes))
        table.add("in one count each", figures_of_counts(folder, len(endpoint.spans)))
    said = f"{disturbances.answered} answered. {'; '.join(failures[:5])}"
    table.add("scrapes", [Figure("failed", len(failures), 0, note=said)])
    said = f"{disturbances.suspensions} suspensions of the agent"
    table.add("job and plain job", [Figure("statuses", str(statuses), "(0, 0)", note=said)])
    wrong = table.status()
    print(f"FAILED: repeat with --seed {options.seed}" if wrong else "flat")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
