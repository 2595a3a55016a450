"""The real training that the dashboards are shown to, once for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.grafana.scraped import Scraped, scrape
from tests.otel.job import Receiver


@pytest.fixture(scope="session")
def scraped(prometheus_server_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """Prometheus runs on until the last test, and so do the jobs of the second story."""
    receiver = Receiver()
    seen = scrape(prometheus_server_binary, tmp_path_factory.mktemp("grafana"), receiver.endpoint)
    yield seen
    receiver.server.shutdown()
    receiver.server.server_close()
    for job in seen.jobs.values():
        job.kill()
    seen.prometheus.close()
