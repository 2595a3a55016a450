"""jaxobs and its peers, each begun as its documentation says, and used in a training loop to keep the time of each step.

Everything is kept on this machine: the peers that have a server are used without one.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, NamedTuple

from benchmarks.beside import page_at
from benchmarks.costs.processes import answer

PAGE_PATIENCE = 30.0

Work = Callable[[], Any]


def _nothing() -> None: ...


class Begun(NamedTuple):
    """A tool that runs in this process."""

    steps: Callable[[int, Work], None]
    """Run the work so many times, and keep each time."""
    record: Callable[[int], None] | None = None
    """Keep so many values of the user's; None where that is not what the tool is for."""
    end: Callable[[], object] = _nothing


@dataclass(frozen=True)
class Peer:
    """`module` is what the script imports."""

    title: str
    distribution: str
    module: str
    begin: Callable[[], Begun]
    max_calls: int = 500
    """In one turn of the clock."""

    def missing(self) -> str | None:
        """Why it cannot be measured here."""
        return None if installed(self.distribution) else f"{self.title}: {self.distribution} is not installed"


def installed(distribution: str) -> str | None:
    """Its version."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(distribution)
    return None


def _plain() -> Begun:
    def steps(count: int, work: Work) -> None:
        for _ in range(count):
            work()

    return Begun(steps)


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

    return Begun(steps, record)  # it ends by itself with the process


def _bare_span() -> Begun:
    """No attributes, no processor: it goes nowhere."""
    from opentelemetry.sdk.trace import TracerProvider

    span = TracerProvider().get_tracer("benchmark").start_as_current_span

    def steps(count: int, work: Work) -> None:
        for _ in range(count):
            with span("step"):
                work()

    return Begun(steps)


def _exported_span() -> Begun:
    """Each step is a span with attributes. The provider ends itself with the process."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    span = provider.get_tracer("benchmark").start_as_current_span

    def steps(count: int, work: Work) -> None:
        for number in range(count):
            with span("step", attributes={"loop": "train", "step": number, "examples": 256}):
                work()

    return Begun(steps)


def _served_histogram() -> Begun:
    from prometheus_client import start_http_server

    start_http_server(0, "127.0.0.1")
    return _kept_histogram()


def _kept_histogram() -> Begun:
    """The child of its labels is taken before the loop."""
    from prometheus_client import Histogram

    observe = Histogram("step_seconds", "Time of a step.", ["loop"]).labels("train").observe

    def steps(count: int, work: Work) -> None:
        clock = time.perf_counter
        for _ in range(count):
            began = clock()
            work()
            observe(clock() - began)

    return Begun(steps)


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

    return Begun(steps)


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

    return Begun(steps, record, end)


PLAIN = Peer("nothing", "jax", "jax", _plain)
JAXOBS = Peer("jaxobs", "jaxobs", "jaxobs", _jaxobs)
SPACED = 8
"""So few calls in a turn for those that hand over to a thread: its queue (tensorboardX's takes ten) does not fill, as
in a loop whose steps take their time; full, it would make each call wait for the file."""
MARKS = {
    "bare_span": Peer("OpenTelemetry, bare span", "opentelemetry-sdk", "opentelemetry.sdk.trace", _bare_span),
    "kept_histogram": Peer(
        "prometheus_client, `child.observe(…)`", "prometheus-client", "prometheus_client", _kept_histogram
    ),
    "same_facts": Peer(
        "prometheus_client, what jaxobs notes", "prometheus-client", "prometheus_client", _same_facts
    ),
    "tensorboard": Peer("tensorboardX", "tensorboardX", "tensorboardX", _tensorboard, SPACED),
    "mlflow": Peer("MLflow, into SQLite", "mlflow", "mlflow", _mlflow, SPACED),
    "wandb": Peer("wandb, offline", "wandb", "wandb", _wandb, SPACED),
}
"""As they keep the time of a step."""

TOOLS = {
    "opentelemetry": Peer(
        "OpenTelemetry, spans over OTLP", "opentelemetry-exporter-otlp-proto-http", "opentelemetry.sdk.trace",
        _exported_span,
    ),
    "prometheus": Peer("prometheus_client, served", "prometheus-client", "prometheus_client", _served_histogram),
    **{name: MARKS[name] for name in ("tensorboard", "mlflow", "wandb")},
}  # fmt: skip
"""As a whole job uses them."""

EVERY = {"plain": PLAIN, "jaxobs": JAXOBS} | MARKS | TOOLS
DISTRIBUTIONS = tuple(dict.fromkeys(peer.distribution for peer in EVERY.values()))


def missing(peers: Mapping[str, Peer]) -> list[str]:
    """Why those are missing that are."""
    return [reason for peer in peers.values() if (reason := peer.missing())]


def in_a_fresh_process(name: str) -> dict[str, float]:
    """Seconds of each part. Runs in a process of its own, which has imported nothing of jaxobs before."""
    import jax  # noqa: F401  # every job has it

    peer, began = EVERY[name], time.perf_counter()
    importlib.import_module(peer.module)
    imported = time.perf_counter()
    peer.begin()
    started = time.perf_counter()
    page = _first_page() - imported if name == "jaxobs" else 0.0
    return {"import": imported - began, "start": started - imported, "both": started - began, "page": page}


def _first_page() -> float:
    import jaxobs

    deadline = time.monotonic() + PAGE_PATIENCE
    while (address := jaxobs.instrument().address) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert address is not None
    page_at(address)
    return time.perf_counter()


if __name__ == "__main__":
    answer(in_a_fresh_process(sys.argv[1]))
