"""The real Collector, with the configuration that is shipped, between the demo and Prometheus and Jaeger."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.deployment.programs import ROOT, Collector, Jaeger, demo
from tests.prometheus_server import EXEMPLARS, PrometheusServer
from tests.waiting import wait_for

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(400)]

SECONDS = 20
OUTAGE_SECONDS = 3.0
SCRAPES = """
global: {{scrape_interval: 1s}}
scrape_configs:
- job_name: jax-pushed
  honor_labels: true
  static_configs: [{{targets: ["{target}"]}}]
"""


@dataclass
class Seen:
    """What each program says after the demo has ended."""

    document: dict[str, Any]
    jaeger: Jaeger
    prometheus: PrometheusServer
    before_outage: int
    accepted_after: int
    refused: int


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, prometheus_server_binary: Path) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("collector")
    jaeger = Jaeger(folder)
    collector = Collector(folder, jaeger.endpoint)
    collector.start()
    target = collector.metrics.removeprefix("http://").removesuffix("/metrics")
    prometheus = PrometheusServer(
        prometheus_server_binary, folder / "prometheus", SCRAPES.format(target=target), EXEMPLARS
    )
    job = demo(
        SECONDS, folder, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint, OTEL_METRIC_EXPORT_INTERVAL="1000",
        OTEL_BSP_SCHEDULE_DELAY="500", JAXOBS_PROMETHEUS="false", JAXOBS_SHUTDOWN_TIMEOUT="20",
    )  # fmt: skip
    try:
        wait_for(lambda: jaeger.traces(operation="jax.compile"), "a first span", 120)
        time.sleep(2)
        collector.stop()
        before = wait_for(jaeger.spans, "what was sent before")
        time.sleep(OUTAGE_SECONDS)
        collector.start()
        output, _ = job.communicate(timeout=180)
        assert job.returncode == 0, (folder / "demo.log").read_text()
        wait_for(lambda: jaeger.traces(operation="jax.run"), "the span of the run")
        time.sleep(2)  # the last batch
        accepted = collector.count("otelcol_receiver_accepted_spans")
        refused = collector.count("otelcol_receiver_refused_spans") + collector.count(
            "otelcol_exporter_send_failed_spans"
        )
        yield Seen(json.loads(output), jaeger, prometheus, before, accepted, refused)
    finally:
        job.kill()
        job.wait()
        collector.stop()
        jaeger.stop()
        prometheus.close()


def test_what_was_sent_while_the_collector_was_away_arrived_and_what_was_lost_is_counted(seen: Seen) -> None:
    lost = seen.document["sources"]["otel"]["dropped"]
    print(
        f"{seen.before_outage} spans before, {seen.accepted_after} after, {lost} lost, {seen.refused} refused"
    )
    assert seen.document["sources"]["otel"]["failures"] > 0, "jaxobs saw the outage"
    assert (lost, seen.refused) == (0, 0)
    assert seen.jaeger.spans() == seen.before_outage + seen.accepted_after


def test_jaeger_gives_a_compiles_trace_by_its_id_with_the_step_as_its_parent(seen: Seen) -> None:
    function = '{"jax.function": "train_step"}'
    compiles = [
        span
        for trace in seen.jaeger.traces(operation="jax.compile", tags=function)
        for span in trace["spans"]
        if span["operationName"] == "jax.compile" and tag(span, "jax.recompilation.cause")
    ]
    assert compiles, "the demo compiles its step again for another shape"
    for compile_ in compiles:
        trace = seen.jaeger.trace(compile_["traceID"])
        by_id = {span["spanID"]: span for span in trace["spans"]}
        (reference,) = by_id[compile_["spanID"]]["references"]
        step = by_id[reference["spanID"]]
        assert (reference["refType"], step["operationName"]) == ("CHILD_OF", "jax.step")
        assert step["startTime"] <= compile_["startTime"]
        assert compile_["startTime"] + compile_["duration"] <= step["startTime"] + step["duration"] + 1
        children = [
            span["operationName"]
            for span in trace["spans"]
            if [each["spanID"] for each in span["references"]] == [compile_["spanID"]]
        ]
        assert "backend_compile" in children


NOT_IN_THE_DEMO = {
    '{"jax.step.why": "slow"}': "its steps are even",
    '{"jax.run.ended": "killed"}': "it ends by itself",
    '{"host.name": "node7"}': "an example's host",
    '{"jax.phase": "checkpoint"}': "it writes none",
}


def test_each_query_of_the_documentation_finds_what_it_asks_for(seen: Seen) -> None:
    table = (
        (ROOT / "docs" / "reference" / "spans.md").read_text().partition("## A query for each question")[2]
    )
    cell = re.compile(r"\| `(?P<operation>[\w.]+)`(?:, `(?P<tags>\{.*?\})`)?[^|]* \|$", re.MULTILINE)
    asked = [(found["operation"], found["tags"] or "{}") for found in cell.finditer(table)]
    assert len(asked) == 8, "of ten: one asks for a trace by its id, one for any operation"
    for operation, tags in asked:
        if tags not in NOT_IN_THE_DEMO:
            assert seen.jaeger.traces(operation=operation, tags=tags), (operation, tags)


def test_prometheus_scrapes_there_what_the_job_said_last(seen: Seen) -> None:
    """It ended long before Prometheus was asked, and between two of its scrapes."""
    steps = seen.document["loops"]["train"]["steps"]
    wait_for(lambda: seen.prometheus.value('jaxobs_steps_total{loop="train"}') == steps, f"{steps} steps")
    (info,) = [each["metric"] for each in seen.prometheus.query("jaxobs_run_info")]
    (target,) = [each["metric"] for each in seen.prometheus.query("target_info")]
    assert (info["run"], info["rank"], info["job"]) == ("demo", "0", "jax")
    assert info["instance"] == target["instance"]
    assert (target["jaxobs_run"], target["host_name"]) == ("demo", info["host"])


def tag(span: dict[str, Any], key: str) -> Any:
    return next((tag["value"] for tag in span["tags"] if tag["key"] == key), None)
