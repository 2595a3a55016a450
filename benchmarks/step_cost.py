"""Cost of one observed step on the training thread against one OpenTelemetry span: `python benchmarks/step_cost.py`.

The step is a turn of `obs.steps(…)` with one call of a watched function in it; what the same loop and call cost without
jaxobs is taken off. The span is the cheapest that the SDK makes: no attributes, no processor. One with the same facts as
attributes (loop, step, examples), handed to the SDK's batch processor as spans are that go anywhere, is shown beside it.
All are timed in turns within one run, so that a busy machine slows all alike. Exit status 1 where the median ratio to the
bare span is above 0.1.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import jaxobs

STEPS = 2_000
SPANS = 500
ROUNDS = 41
ALLOWED = 0.1


class Dropping(SpanExporter):
    """As cheap as an exporter can be."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002
        """Drop them."""
        return SpanExportResult.SUCCESS


def nothing() -> None:
    """The user's function: a call and no more."""


def loops() -> tuple[dict[str, tuple[Callable[[], None], int]], Callable[[], None]]:
    """What is timed, by name, each with its turns; and what ends it all."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Dropping(), max_queue_size=ROUNDS * SPANS))
    tracer = provider.get_tracer("benchmark")
    bare_tracer = TracerProvider().get_tracer("benchmark")
    observer = jaxobs.instrument(prometheus=False)
    watched = observer.watch(nothing)
    items = range(STEPS)

    def plain() -> None:
        for _ in items:
            nothing()

    def observed() -> None:
        for _ in observer.steps(items, examples=256):
            watched()

    def spans() -> None:
        for number in range(SPANS):
            attributes = {"jax.loop": "train", "jax.step": number, "jax.examples": 256}
            with tracer.start_as_current_span("jax.step", attributes=attributes):
                nothing()

    def bare_spans() -> None:
        for _ in range(SPANS):
            with bare_tracer.start_as_current_span("jax.step"):
                nothing()

    def end() -> None:
        observer.shutdown()
        provider.shutdown()

    timed = {
        "plain": (plain, STEPS),
        "step": (observed, STEPS),
        "span": (spans, SPANS),
        "bare span": (bare_spans, SPANS),
    }
    return timed, end


def seconds(run: Callable[[], None], turns: int) -> float:
    """Of one turn."""
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) / turns


def main() -> int:
    """Print medians over the rounds and their ratio."""
    timed, end = loops()
    for run, _ in timed.values():
        run()
    time.sleep(1.0)  # the agent's start
    gc.collect()
    times: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(ROUNDS):
        for name, (run, turns) in timed.items():
            times[name].append(seconds(run, turns))
    end()
    times["step"] = [step - plain for step, plain in zip(times["step"], times.pop("plain"), strict=True)]
    for name, found in times.items():
        print(f"{name:10} median {statistics.median(found) * 1e6:6.2f} µs, least {min(found) * 1e6:6.2f} µs")
    ratios = {
        name: statistics.median(step / span for step, span in zip(times["step"], times[name], strict=True))
        for name in ("span", "bare span")
    }
    print(
        f"step / bare span: median {ratios['bare span']:.3f} (allowed {ALLOWED}); step / span: {ratios['span']:.3f}"
    )
    return int(ratios["bare span"] > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
