"""Prometheus 3 takes over its own OTLP receiver what it would have scraped, under the same names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deployment.programs import demo, get, tool
from tests.prometheus_server import PrometheusServer
from tests.waiting import wait_for

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(300)]

SCRAPES_NOTHING = "storage: {tsdb: {out_of_order_time_window: 10m}}\n"


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    server = PrometheusServer(
        tool("prometheus"), tmp_path_factory.mktemp("receiver"), SCRAPES_NOTHING, "--web.enable-otlp-receiver",
    )  # fmt: skip
    yield server
    server.close()


def pushed(prometheus: PrometheusServer, folder: Path, **variables: str) -> tuple[dict[str, Any], set[str]]:
    """The demo's result, and the names on its own page just before its end."""
    job = demo(
        8, folder, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=f"{prometheus.address}/api/v1/otlp/v1/metrics",
        OTEL_METRIC_EXPORT_INTERVAL="1000", JAXOBS_SHUTDOWN_TIMEOUT="20", JAXOBS_PROFILE_BUDGET_RATIO="0",
        **variables,
    )  # fmt: skip
    names: set[str] = set()
    try:
        log = folder / "demo.log"
        found: Any = wait_for(
            lambda: re.search(r"http://localhost:\d+/metrics", log.read_text()), "the address"
        )
        while job.poll() is None:
            try:
                page = str(get(found[0]))
            except OSError:
                break
            names |= set(re.findall(r"^([a-z_]+)(?:\{.*\})? [^ ]+$", page, re.MULTILINE))
        output, _ = job.communicate(timeout=120)
        assert job.returncode == 0, log.read_text()
    finally:
        job.kill()
        job.wait()
    return json.loads(output), names


def test_every_name_is_the_same_as_on_the_page(prometheus: PrometheusServer, tmp_path: Path) -> None:
    document, names = pushed(prometheus, tmp_path, JAXOBS_RUN="pushed")
    assert len(names) > 60
    steps = document["loops"]["train"]["steps"]
    wait_for(lambda: prometheus.value('jaxobs_steps_total{loop="train"}') == steps, f"{steps} steps")
    assert names - prometheus.names() == set()
    (info,) = [each["metric"] for each in prometheus.query('jaxobs_run_info{run="pushed"}')]
    (target,) = [each["metric"] for each in prometheus.query("target_info")]
    assert (info["job"], info["instance"]) == ("jax", target["instance"])
    assert target["jaxobs_run"] == "pushed"
