"""jaxobs and its peers, each begun as its documentation says, and used in a training loop to keep the time of each step.

Everything is kept on this machine: the peers that have a server are used without one.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import tempfile
import time
from collections.abc import Callable
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
    return _spans([], None)


def _exported_span() -> Begun:
    """Each step is a span with attributes. The provider ends itself with the process."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    return _spans([BatchSpanProcessor(OTLPSpanExporter())], {"loop": "train", "examples": 256})


def _spans(processors: list[Any], attributes: Any) -> Begun:
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider()
    for processor in processors:
        provider.add_span_processor(processor)
    span = provider.get_tracer("benchmark").start_as_current_span

    def steps(count: int, work: Work) -> None:
        for _ in range(count):
            with span("step", attributes=attributes):
                work()

    return Begun(steps)


def _served_histogram() -> Begun:
    """The child of its labels is taken before the loop."""
    from prometheus_client import Histogram, start_http_server

    start_http_server(0, "127.0.0.1")
    observe = Histogram("step_seconds", "Time of a step.", ["loop"]).labels("train").observe

    def steps(count: int, work: Work) -> None:
        clock = time.perf_counter
        for _ in range(count):
            began = clock()
            work()
            observe(clock() - began)

    return Begun(steps)


def _tensorboard() -> Begun:
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(tempfile.mkdtemp())
    return _writing(writer.add_scalar, writer.close)


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
    "prometheus": Peer(
        "prometheus_client, served", "prometheus-client", "prometheus_client", _served_histogram
    ),
    "tensorboard": Peer("tensorboardX", "tensorboardX", "tensorboardX", _tensorboard, SPACED),
    "wandb": Peer("wandb, offline", "wandb", "wandb", _wandb, SPACED),
}
"""As they keep the time of a step."""

TOOLS = {
    "opentelemetry": Peer(
        "OpenTelemetry, spans over OTLP", "opentelemetry-exporter-otlp-proto-http", "opentelemetry.sdk.trace",
        _exported_span,
    ),
    **{name: MARKS[name] for name in ("prometheus", "tensorboard", "wandb")},
}  # fmt: skip
"""As a whole job uses them."""

EVERY = {"plain": PLAIN, "jaxobs": JAXOBS} | MARKS | TOOLS
DISTRIBUTIONS = tuple(dict.fromkeys(peer.distribution for peer in EVERY.values()))


def here(peers: dict[str, Peer]) -> dict[str, Peer]:
    """Those that are installed."""
    return {name: peer for name, peer in peers.items() if installed(peer.distribution)}


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
