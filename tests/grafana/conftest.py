"""The real training that the dashboards are shown to, once for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.grafana.scraped import Scraped, scrape


@pytest.fixture(scope="session")
def scraped(prometheus_server_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """Prometheus runs on until the last test, and so do the jobs of the second story."""
    folder = tmp_path_factory.mktemp("grafana")
    seen = scrape(prometheus_server_binary, folder)
    yield seen
    for job in seen.jobs.values():
        job.kill()
    seen.prometheus.close()
