"""The checks that every plugin must pass, one a kind: it is checked, started, used and stopped as jaxobs does it.

What its methods answer is compared with what they should: each fault comes in words, with what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.model.clock import monotonic, now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Catalogue, DeviceReading, Metric
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.base import Collector, Delivery, Exporter, Probe
from jaxobs.plugin.discovery import COLLECTORS, EXPORTERS, PROBES, conformance_problem, shown
from jaxobs.plugin.guard import described
from jaxobs.plugin.protocol import Batch, Remark
from jaxobs.testing.stand_ins import FakeAgent, FakeJob

Item = TypeVar("Item")
Given = TypeVar("Given", FakeJob, FakeAgent)


STOP_SECONDS = 5.0


def raised(call: str, advice: str, function: Callable[..., object], *arguments: object) -> None:
    """Call a method that must not raise; `call` is how it is written, `advice` what to do where it did."""
    try:
        function(*arguments)
    except Exception as error:
        raise AssertionError(f"{call} raised {described(error)}, and must not: {advice}") from error


def answered(
    call: str, function: Callable[[], Iterable[Item]], expected: str, kind: type[Item]
) -> list[Item]:
    """What a method that returns several things of one kind returned, each of that kind."""
    try:
        answer: Any = function()
        several = isinstance(answer, Iterable) and not isinstance(answer, str)
        items = list(answer) if several else []
    except Exception as error:
        raise AssertionError(f"{call} raised {described(error)}, and must return {expected}") from error
    assert several, f"{call} returned {shown(answer)}, and must return {expected}: an empty one for nothing"
    for item in items:
        assert isinstance(item, kind), (
            f"{call} returned {shown(item)} among others, and must return {expected}"
        )
    return items


def declared(who: str, events: Iterable[Any], metrics: Iterable[Metric]) -> None:
    """Every `Measured` among the events is of a declared metric and has its labels and a number."""
    known = {metric.name: metric for metric in metrics}
    for event in events:
        if not isinstance(event, Measured):
            continue
        metric = known.get(event.metric)
        assert metric is not None, (
            f"{who}: metric {event.metric} was emitted and not declared: add it to `metrics` "
            f"(declared: {', '.join(known) or 'none'})"
        )
        fits = len(event.labels) == len(metric.labels)
        assert fits and all(isinstance(value, str) for value in event.labels), (  # noqa: PT018  # one fault
            f"{who}: {metric.name} was emitted with the labels {event.labels!r}, and has the labels {metric.labels}: "
            "give a text for each, in that order"
        )
        assert isinstance(event.value, int | float), (
            f"{who}: {metric.name} was emitted with the value {shown(event.value)}, and must be a number: "
            "what is not known is not emitted"
        )


@contextmanager
def lived(
    group: str, plugin: Any, make: Callable[[], Given], advice: str, *timeout: float
) -> Iterator[Given]:
    """A plugin conforms, is checked, started, used in the block and stopped, twice and also without a start."""
    name, call = type(plugin).__name__, "stop(timeout)" if timeout else "stop()"
    problem = conformance_problem(group, plugin)
    assert not problem, problem
    _declares(name, plugin.metrics)
    raised(f"{name}.{call} before start()", "there is nothing to undo yet", plugin.stop, *timeout)
    given = make()
    expected = "an iterable of jaxobs.plugin.protocol.Remark"
    for remark in answered(f"{name}.check(settings)", lambda: plugin.check(given.settings), expected, Remark):
        assert remark.text.isprintable(), (
            f"{name}.check(settings): the remark {remark.text!r} is not one line of text: leave out line ends"
        )
    what = "job" if group == PROBES else "agent"
    raised(f"{name}.start({what})", advice, plugin.start, given)
    try:
        yield given
    except BaseException:  # what it hooked must not stay in the tests that follow
        with suppress(Exception):
            plugin.stop(*timeout)
        raise
    for turn in ("", " a second time"):
        started = monotonic()
        raised(f"{name}.{call}{turn}", "stop() must be safe twice", plugin.stop, *timeout)
        elapsed = monotonic() - started
        assert not timeout or elapsed < STOP_SECONDS + 1, (
            f"{name}.stop({STOP_SECONDS}){turn} took {elapsed:.1f} s: it must give up after `timeout` seconds"
        )
    reason: Any = plugin.reason
    assert isinstance(reason, str), (
        f"{name}.reason is {shown(reason)}, and must be text: empty where there is nothing to say"
    )


def check_probe(probe: Probe, use: Callable[[], None] = lambda: None) -> FakeJob:
    """A probe starts, hooks in, lives through `use` and a sample, and stops, twice and also without a start."""
    name = type(probe).__name__
    with lived(PROBES, probe, FakeJob, "say by `job.switch_off(reason)` why it cannot work") as job:
        use()
        raised(f"{name}.sample()", "what may fail is caught there, and said in `reason`", probe.sample)
    assert not job.failures, (
        f"{name}: a hook wrapped by job.guard raised: {'; '.join(job.failures)}. "
        "It was caught, as in a job; a hook handles what it expects"
    )
    declared(f"{name}, by job.emit(),", job.events, probe.metrics)
    return job


def check_collector(collector: Collector, pid: int | None = None) -> list[Measured]:
    """A collector answers within its interval with values of the metrics it declared. Returns them."""
    name = type(collector).__name__
    advice = "where the hardware is not there, return and say so in `reason`"
    with lived(COLLECTORS, collector, lambda: FakeAgent(metrics=collector.metrics, pid=pid), advice):
        started = monotonic()
        values = answered(
            f"{name}.collect()", collector.collect, "an iterable of jaxobs.model.events.Measured", Measured
        )
        elapsed = monotonic() - started
    for reading in collector.device_readings:
        assert isinstance(reading, DeviceReading), (
            f"{name}.device_readings has {shown(reading)}, and each must be a jaxobs.model.metrics.DeviceReading"
        )
        assert reading.metric in collector.metrics, (
            f"{name}.device_readings: {reading.metric.name} is read, and not declared: add it to {name}.metrics"
        )
    assert elapsed < collector.interval, (
        f"{name}.collect() took {elapsed:.2f} s, longer than its interval {collector.interval} s: "
        "raise the interval, or ask for less in one turn"
    )
    declared(f"{name}.collect()", values, collector.metrics)
    answered(f"{name}.devices_present()", collector.devices_present, "a sequence of names", str)
    return values


def check_exporter(exporter: Exporter, settings: Mapping[str, Any] | None = None) -> FakeAgent:
    """An exporter takes an empty batch, and stops in time, twice and also without a start."""
    name, advice = type(exporter).__name__, "with these settings it must start"
    make = partial(FakeAgent, settings, exporter.metrics)
    with lived(EXPORTERS, exporter, make, advice, STOP_SECONDS) as agent:
        batch = Batch(SnapshotData(now(), {}), (), ())
        if exporter.takes_batches:
            raised(
                f"{name}.export(batch)", "a batch may have neither events nor spans", exporter.export, batch
            )
        delivery: Any = exporter.delivery()
        assert isinstance(delivery, Delivery), (
            f"{name}.delivery() returned {shown(delivery)}, and must return a jaxobs.plugin.base.Delivery"
        )
    declared(f"{name}, by agent.emit(),", agent.events, exporter.metrics)
    return agent


def _declares(name: str, metrics: Iterable[Metric]) -> None:
    """The metrics fit together, and none is the core's."""
    catalogue = Catalogue(CORE_METRICS)
    for metric in metrics:
        assert catalogue.get(metric.name) is None, (
            f"{name}.metrics: {metric.name} belongs to the core: use a prefix of your own"
        )
        try:
            catalogue.declare([metric])
        except ValueError as error:
            raise AssertionError(f"{name}.metrics: {error}") from None
