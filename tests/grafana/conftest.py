"""The real training that the dashboards are shown to, once for all tests."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.grafana.scraped import Scraped, scrape


def _free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


@pytest.fixture(scope="session")
def scraped(prometheus_server_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """Prometheus runs on until the last test, and so do the jobs of the second story."""
    folder = tmp_path_factory.mktemp("grafana")
    seen = scrape(prometheus_server_binary, folder, *_free_ports(3))
    yield seen
    for job in seen.jobs.values():
        job.kill()
    seen.prometheus.process.terminate()
    seen.prometheus.process.wait(30)
