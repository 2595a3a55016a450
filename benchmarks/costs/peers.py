"""jaxobs and its peers, each begun as its documentation says, and used in a training loop to keep the time of each step.

Everything is kept on this machine: the peers that have a server are used without one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.costs.machine import installed

Work = Callable[[], Any]


class Begun(NamedTuple):
    """A tool that runs in this process."""

    steps: Callable[[int, Work], None]
    """Run the work so many times, and keep each time."""
    record: Callable[[int], None] | None
    """Keep so many values of the user's; None where that is not what the tool is for."""
    end: Callable[[], None]


@dataclass(frozen=True)
class Peer:
    """`module` is what the script imports; `does` says what a step is for it."""

    title: str
    distribution: str
    module: str
    does: str
    begin: Callable[[], Begun]
    max_calls: int = 500
    """In one turn of the clock."""

    def missing(self) -> str | None:
        """Why it cannot be measured here."""
        return None if installed(self.distribution) else f"{self.title}: {self.distribution} is not installed"


def _nothing() -> None: ...


def _plain() -> Begun:
    def steps(count: int, work: Work) -> None:
        for _ in range(count):
            work()

    return Begun(steps, None, _nothing)


def _jaxobs() -> Begun:
    import jaxobs

    observer = jaxobs.instrument()

    def steps(count: int, work: Work) -> None:
        watched = observer.watch(work)
        for _ in observer.steps(range(count), examples=256):
            watched()

    def record(count: int) -> None:
        for number in range(count):
            observer.record(loss=0.5 * number)

    return Begun(steps, record, _nothing)  # it ends by itself with the process


def _spans(provider: Any, end: Callable[[], None], *, attributes: bool = False) -> Begun:
    """Each step is a span, with its number where it has attributes."""
    span = provider.get_tracer("benchmark").start_as_current_span

    def bare(count: int, work: Work) -> None:
        for _ in range(count):
            with span("step"):
                work()

    def steps(count: int, work: Work) -> None:
        for number in range(count):
            with span("step", attributes={"loop": "train", "step": number, "examples": 256}):
                work()

    return Begun(steps if attributes else bare, None, end)


def _bare_span() -> Begun:
    from opentelemetry.sdk.trace import TracerProvider

    return _spans(TracerProvider(), _nothing)


def _provider(exporter: Any, **options: Any) -> Any:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter, **options))
    return provider


def _exported_span() -> Begun:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    # The provider ends itself with the process.
    return _spans(_provider(OTLPSpanExporter()), _nothing, attributes=True)


def _processed_span() -> Begun:
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Dropping(SpanExporter):
        """As cheap as an exporter can be."""

        def export(self, spans: Any) -> SpanExportResult:  # noqa: ARG002
            return SpanExportResult.SUCCESS

    provider = _provider(Dropping(), max_queue_size=100_000)
    return _spans(provider, provider.shutdown, attributes=True)


def _served_histogram() -> Begun:
    from prometheus_client import start_http_server

    start_http_server(0, "127.0.0.1")
    return _kept_histogram()


def _kept_histogram() -> Begun:
    from prometheus_client import Histogram

    observe = Histogram("step_seconds", "Time of a step.", ["loop"]).labels("train").observe

    def steps(count: int, work: Work) -> None:
        clock = time.perf_counter
        for _ in range(count):
            began = clock()
            work()
            observe(clock() - began)

    return Begun(steps, None, _nothing)


def _same_facts() -> Begun:
    """What jaxobs notes of a step, as far as prometheus_client can keep it: everything is made before the loop."""
    from prometheus_client import Counter, Histogram

    names = ("step_seconds", "input_wait_seconds", "dispatch_seconds")
    step, wait, dispatch = (
        Histogram(name, "See its name.", ["loop"]).labels("train").observe for name in names
    )
    examples = Counter("examples", "Examples.", ["loop"]).labels("train").inc

    def steps(count: int, work: Work) -> None:
        clock = time.perf_counter
        items = iter(range(count))
        began = clock()
        for _ in items:
            ready = clock()
            called = clock()
            work()
            dispatched = clock()
            ended = clock()
            step(ended - began)
            wait(ready - began)
            dispatch(dispatched - called)
            examples(256)
            began = ended

    return Begun(steps, None, _nothing)


def _tensorboard() -> Begun:
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(tempfile.mkdtemp())
    return _writing(writer.add_scalar, writer.close)


def _mlflow() -> Begun:
    import mlflow

    folder = tempfile.mkdtemp()
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.set_experiment("benchmark")
    mlflow.start_run()
    return _writing(lambda name, value, number: mlflow.log_metric(name, value, step=number), mlflow.end_run)


def _wandb() -> Begun:
    import wandb

    run = wandb.init(mode="offline", dir=tempfile.mkdtemp(), project="benchmark")
    return _writing(lambda name, value, _: run.log({name: value}), run.finish)


def _writing(write: Callable[[str, float, int], object], end: Callable[[], object]) -> Begun:
    """A tool that writes down numbers, of which one can be a step's time."""

    def steps(count: int, work: Work) -> None:
        clock = time.perf_counter
        for number in range(count):
            began = clock()
            work()
            write("step_seconds", clock() - began, number)

    def record(count: int) -> None:
        for number in range(count):
            write("loss", 0.5 * number, number)

    return Begun(steps, record, lambda: (end(), None)[1])


PLAIN = Peer("nothing", "jax", "jax", "", _plain)
JAXOBS = Peer("jaxobs", "jaxobs", "jaxobs", "the turn of `obs.steps(…)` with one watched call", _jaxobs)
SPACED = 8
"""So few calls in a turn for those that hand over to a thread: its queue (tensorboardX's takes ten) does not fill, as
in a loop whose steps take their time; full, it would make each call wait for the file."""
MARKS = {
    "bare_span": Peer(
        "OpenTelemetry, bare span", "opentelemetry-sdk", "opentelemetry.sdk.trace",
        "`start_as_current_span`: no attributes, no processor, so it goes nowhere", _bare_span,
    ),
    "processed_span": Peer(
        "OpenTelemetry, span", "opentelemetry-sdk", "opentelemetry.sdk.trace",
        "loop, step and examples as attributes, into a `BatchSpanProcessor` whose exporter drops it", _processed_span,
    ),
    "kept_histogram": Peer(
        "prometheus_client, child kept", "prometheus-client", "prometheus_client",
        "two clock readings and `child.observe(…)`, the child of its labels taken before the loop", _kept_histogram,
    ),
    "same_facts": Peer(
        "prometheus_client, what jaxobs notes", "prometheus-client", "prometheus_client",
        "children kept: step, wait for input and dispatch observed, examples counted", _same_facts,
    ),
    "tensorboard": Peer(
        "tensorboardX", "tensorboardX", "tensorboardX", "two clock readings and `add_scalar`", _tensorboard,
        SPACED,
    ),
    "mlflow": Peer("MLflow", "mlflow", "mlflow", "two clock readings and `log_metric`, into SQLite", _mlflow, SPACED),
    "wandb": Peer("wandb, offline", "wandb", "wandb", "two clock readings and `run.log`", _wandb, SPACED),
}  # fmt: skip
"""As they keep the time of a step."""

TOOLS = {
    "opentelemetry": Peer(
        "OpenTelemetry, spans over OTLP",
        "opentelemetry-exporter-otlp-proto-http",
        "opentelemetry.sdk.trace",
        "",
        _exported_span,
    ),
    "prometheus": Peer(
        "prometheus_client, served", "prometheus-client", "prometheus_client", "", _served_histogram
    ),
    **{name: MARKS[name] for name in ("tensorboard", "mlflow", "wandb")},
}
"""As a whole job uses them."""

EVERY = {"plain": PLAIN, "jaxobs": JAXOBS} | MARKS | TOOLS
DISTRIBUTIONS = tuple(dict.fromkeys(peer.distribution for peer in EVERY.values()))


def missing(peers: Mapping[str, Peer]) -> list[str]:
    """Why those are missing that are."""
    return [reason for peer in peers.values() if (reason := peer.missing())]
