"""What a training process sends, writes and leaves behind, with everything real."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.beside import install
from tests.end_to_end.training import Training, page
from tests.otel.job import Receiver
from tests.waiting import wait_for

Start = Callable[..., Training]

IN_A_SPAN = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
with jaxobs.instrument() as obs:
    with trace.get_tracer("app").start_as_current_span("epoch") as epoch:
        context = epoch.get_span_context()
        train(obs, 60)
        train_step(jnp.ones((8, 8)), jnp.ones((4, 8)))  # another shape
        with obs.step(loop="slow"):
            pass
    time.sleep(0.5)
    say(trace=f"{context.trace_id:032x}", span=f"{context.span_id:016x}", document=obs.snapshot(60).to_dict())
say(ended=True)
"""


def test_compiles_arrive_over_otlp_within_the_applications_own_span(
    start_training: Start, receiver: Receiver
) -> None:
    training = start_training(
        IN_A_SPAN, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, OTEL_BSP_SCHEDULE_DELAY="100",
        OTEL_METRIC_EXPORT_INTERVAL="200", OTEL_SERVICE_NAME="trainer",
    )  # fmt: skip
    heard = training.hear()
    training.hear()
    assert training.end() == 0, training.errors()
    assert heard["document"]["agent"]["events_refused"] == 0
    spans = receiver.spans()
    compiles = [
        span for span in spans
        if span.name == "jax.compile" and any(a.value.string_value == "train_step" for a in span.attributes)
    ]  # fmt: skip
    assert len(compiles) == 2
    by_id = {span.span_id: span for span in spans}
    step = by_id[min(compiles, key=lambda span: span.start_time_unix_nano).parent_span_id]
    assert (step.name, step.parent_span_id.hex()) == ("jax.step", heard["span"])
    assert compiles[-1].parent_span_id.hex() == heard["span"], "it lay in no step"
    for span in compiles:
        assert span.trace_id.hex() == heard["trace"]
        children = [child for child in spans if child.parent_span_id == span.span_id]
        assert [child.name for child in children][:3] == ["trace", "lower", "backend_compile"]
        for child in children:
            assert span.start_time_unix_nano <= child.start_time_unix_nano
            assert child.end_time_unix_nano <= span.end_time_unix_nano
            assert child.trace_id == span.trace_id
        assert abs(span.end_time_unix_nano / 1e9 - time.time()) < 120
    points = {
        point.attributes[0].value.string_value: point.as_double or point.as_int
        for metric in receiver.metrics() if metric.name == "jaxobs.steps" for point in metric.sum.data_points
    }  # fmt: skip
    assert points["train"] == 60
    resource = {
        attribute.key: attribute.value.string_value
        for request in receiver.accepted("/v1/metrics")
        for resource in request.message.resource_metrics
        for attribute in resource.resource.attributes
    }
    assert resource["service.name"] == "trainer"


UNTIL_KILLED = """
obs = jaxobs.instrument()
train(obs, 50)
time.sleep(0.5)
say(document=obs.snapshot(60).to_dict(), address=obs.address)
while True:
    train(obs, 50)
"""


def test_after_sigkill_the_lines_are_whole_the_port_is_closed_and_nobody_is_left(
    start_training: Start, tmp_path: Path
) -> None:
    training = start_training(UNTIL_KILLED, JAXOBS_JSONL_DIRECTORY=str(tmp_path / "lines"))
    heard = training.hear()
    where, agent = urlsplit(heard["address"]), heard["document"]["agent"]["pid"]
    assert children_of(training.process.pid) == []
    time.sleep(0.5)
    training.process.send_signal(signal.SIGKILL)
    training.process.wait(10)

    def closed() -> bool:
        try:
            socket.create_connection((str(where.hostname), where.port or 0), timeout=1).close()
        except OSError:
            return True
        return False

    wait_for(closed, "the port to be closed")
    wait_for(lambda: not alive(agent), "the agent to be gone")
    (file,) = (tmp_path / "lines").glob("*.jsonl")
    content = file.read_bytes()
    assert content.endswith(b"\n")
    lines = [json.loads(line) for line in content.splitlines()]
    steps = [line["step"] for line in lines if line["event"] == "StepEnded"]
    assert len(steps) >= 50
    assert steps == list(range(len(steps)))  # none is missing but those of the last interval


STOPPED_AGENT = """
import signal
obs = jaxobs.instrument()
train(obs, 20)
time.sleep(0.5)
first = obs.snapshot(60).to_dict()
agent = first["agent"]["pid"]
os.kill(agent, signal.SIGSTOP)
began = time.monotonic()
stopped = obs.snapshot(0.5).to_dict()
waited = time.monotonic() - began
train(obs, 20)
os.kill(agent, signal.SIGCONT)
time.sleep(0.5)
last = obs.snapshot(60).to_dict()
obs.shutdown()
say(first=first, stopped=stopped, waited=waited, last=last)
"""


def test_while_the_agent_is_stopped_a_snapshot_keeps_its_deadline_and_says_why_it_is_empty(
    start_training: Start,
) -> None:
    training = start_training(STOPPED_AGENT)
    heard = training.hear()
    assert heard["first"]["loops"]["train"]["steps"] == 20
    assert 0.4 < heard["waited"] < 15
    assert heard["stopped"]["loops"] is None
    assert heard["stopped"]["loops_reason"] == "the agent did not answer within 0.5 s"
    assert heard["last"]["loops"]["train"]["steps"] == 40
    assert training.process.wait(20) == 0


COLLECTING = """
with jaxobs.instrument() as obs:
    train(obs, 20)
    gc.collect()
    time.sleep(0.5)
    say(document=obs.snapshot(60).to_dict(), address=obs.address)
    wait()
"""


def test_an_installed_plugins_metric_and_span_arrive_everywhere_beside_a_broken_one(
    start_training: Start, receiver: Receiver, example_plugin_path: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    install(broken, "broken_one", "raise ImportError('it needs what is not there')",
            {"jaxobs.probes": "broken = broken_one:Probe"})  # fmt: skip
    training = start_training(
        COLLECTING, PYTHONPATH=os.pathsep.join([str(example_plugin_path), str(broken)]),
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint, OTEL_BSP_SCHEDULE_DELAY="100",
        OTEL_METRIC_EXPORT_INTERVAL="200", JAXOBS_JSONL_DIRECTORY=str(tmp_path / "lines"),
    )  # fmt: skip
    heard = training.hear()
    sources = heard["document"]["sources"]
    assert sources["example"] == sources["example"] | {"kind": "probe", "up": True, "failures": 0}
    assert not sources["broken"]["up"]
    assert "it needs what is not there" in sources["broken"]["reason"]
    assert sources["compile"]["up"]
    assert heard["document"]["loops"]["train"]["steps"] == 20
    text = page_with(heard["address"], 'example_collections_total{generation="2"}')
    assert "# TYPE example_collection_seconds histogram" in text
    assert 'jaxobs_source_up{source="broken"} 0.0' in text
    assert 'jaxobs_source_up{source="example"} 1.0' in text
    spans = wait_for(
        lambda: [span for span in receiver.spans() if span.name == "example.collection"], "the plugin's spans"
    )
    assert training.end() == 0
    assert all(span.trace_id.hex() != "0" * 32 for span in spans)
    assert "example.collections" in {metric.name for metric in receiver.metrics()}
    (file,) = (tmp_path / "lines").glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert any(line.get("metric") == "example_collections_total" for line in lines)
    assert any(line["event"] == "SpanEnded" and line["name"] == "example.collection" for line in lines)


def page_with(address: str, piece: str) -> str:
    """The first page that has it."""

    def found() -> str:
        text = page(address)
        return text if piece in text else ""

    return wait_for(found, piece)


def children_of(process: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == process:
                found.append(int(entry.name))
    return found


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
