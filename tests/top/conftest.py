"""Metrics servers as agents have them, and real jobs of one rank or more."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
    held: list[socket.socket] = field(default_factory=list)

    def show(self, document: Mapping[str, Any]) -> None:
        self.exporter.export(Batch(SnapshotData(now(), document), (), ()))

    def stop(self) -> None:
        """End it, and keep its port from jobs of other tests, at which the view would look else."""
        self.exporter.stop(1.0)
        both = socket.has_dualstack_ipv6()
        one = socket.socket(socket.AF_INET6 if both else socket.AF_INET)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if both:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        one.bind(("", urlsplit(self.address).port))
        self.held.append(one)


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
        served.exporter.stop(1.0)
        for holder in served.held:
            holder.close()


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
