"""Metrics servers as agents have them, and real jobs of one rank or more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.beside import free_port
from jaxobs.model.clock import now
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from jaxobs.testing import FakeAgent
from jaxobs_plugins.prometheus import PrometheusExporter
from tests.jobs import environment

PEAKS = {"JAXOBS_PEAK_FLOPS": '{"float32": 2.5e11}', "JAXOBS_PEAK_BYTES_PER_SECOND": "1.8e10"}


@dataclass
class Served:
    """The exporter of an agent, and what it shows."""

    exporter: PrometheusExporter
    address: str

    def show(self, document: Mapping[str, Any]) -> None:
        self.exporter.export(Batch(SnapshotData(now(), document), (), ()))

    def stop(self) -> None:
        self.exporter.stop(1.0)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Served]]:
    """Serve a document with the settings of an agent."""
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    begun: list[Served] = []

    def one(document: Mapping[str, Any], rank: int = 0, **settings: Any) -> Served:
        resource = {
            "jaxobs.run": "first",
            "jax.process_index": str(rank),
            "service.instance.id": f"it-{rank}",
        }
        agent = FakeAgent(settings)
        agent.resource = resource
        exporter = PrometheusExporter()
        exporter.start(agent)
        begun.append(Served(exporter, agent.addresses[-1].removesuffix("metrics")))
        begun[-1].show(document)
        return begun[-1]

    yield one
    for served in begun:
        served.stop()


@dataclass
class Job:
    """Processes of one training, the addresses of their pages, and the folder of files that they follow."""

    processes: list[subprocess.Popen[str]]
    addresses: list[str]
    folder: Path

    def end(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.communicate(timeout=30)


@pytest.fixture
def train(tmp_path: Path) -> Iterator[Callable[[int], Job]]:
    """Starts a real training of so many ranks, which `targets` in its folder names."""
    jobs: list[Job] = []

    def start(ranks: int) -> Job:
        settings = environment(
            **PEAKS, JAXOBS_RUN="demo", JAXOBS_FILE_SD_DIRECTORY=str(tmp_path / "targets"),
            WORLD_SIZE=str(ranks), COORDINATOR=f"127.0.0.1:{free_port()}",
        )  # fmt: skip
        processes = [
            subprocess.Popen(
                [sys.executable, Path(__file__).with_name("job.py"), tmp_path, "150"],
                env=settings | {"RANK": str(rank)},
                stdout=subprocess.PIPE, text=True,
            )
            for rank in range(ranks)
        ]  # fmt: skip
        jobs.append(Job(processes, [], tmp_path))
        jobs[-1].addresses = [_address(process) for process in processes]
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("http"):
            return line.strip().removesuffix("metrics")
    pytest.fail("a rank ended before it had an address")
