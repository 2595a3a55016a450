"""Metrics servers as agents have them, and real jobs of one rank or more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jaxobs.model.clock import now
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from jaxobs.testing import FakeAgent
from jaxobs_plugins.prometheus.exporter import PrometheusExporter
from tests.top.ranks import Job, started


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
def serve(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Served]]:
    """Serve a document with the settings of an agent; servers know each other only by a directory that is given."""
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    begun: list[Served] = []

    def one(document: Mapping[str, Any], rank: int = 0, **settings: Any) -> Served:
        resource = {
            "jaxobs.run": "first",
            "jax.process_index": str(rank),
            "service.instance.id": f"it-{rank}",
        }
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("apart")))
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


@pytest.fixture
def train(tmp_path: Path) -> Iterator[Callable[[int], Job]]:
    """Starts a real training of so many ranks, which `targets` in its folder names."""
    jobs: list[Job] = []

    def start(ranks: int) -> Job:
        jobs.append(started(tmp_path, ranks, 150))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()
