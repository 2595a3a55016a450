"""Made-up events for the fold, and what every snapshot must keep to, whatever the events were."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.derive.fold import Fold
from jaxobs.derive.writer import WORK_OF_LOOPS
from jaxobs.flow import wire
from jaxobs.hardware.peaks import Peak, Peaks
from jaxobs.model.clock import NANOSECONDS, ClockAnchor
from jaxobs.model.cost import Cost, ModuleCost, OperationCost
from jaxobs.model.events import (
    PROCESS_MEMORY,
    BackendFound,
    Compilation,
    CompilePhaseEnded,
    CompilePhaseStarted,
    Event,
    ExecutableCreated,
    ExecutableRan,
    FunctionCalled,
    FunctionWatched,
    LiveArraysCounted,
    LoopDeclared,
    LoopEnded,
    LoopEntered,
    MainThreadSampled,
    Measured,
    MemorySampled,
    PhaseEnded,
    PhaseStarted,
    ProbeReported,
    ProfileWindow,
    Recorded,
    RunUnderWay,
    SourceReported,
    SpanContext,
    SpanEnded,
    StacksTaken,
    StepCompleted,
    StepEnded,
    TurnsAsked,
)
from jaxobs.model.metrics import Catalogue, Family, HistogramValue, Metric
from jaxobs.model.profile import OUTCOMES
from jaxobs.model.snapshot import SnapshotData
from jaxobs.vocabulary.words import CATEGORIES, PHASES
from jaxobs_plugins.prometheus.render import OPENMETRICS, render

SECOND = NANOSECONDS
MILLISECOND = SECOND // 1000
BEGAN = 1_000 * SECOND
CLOCK = ClockAnchor(monotonic=BEGAN, wall=1_700_000_000 * SECOND)
RESOURCE = {"service.name": "job", "service.instance.id": "i", "host.name": "node", "process.pid": "7"}
FACTS = {"jaxobs": "1.2.3", "agent": "process"}
PLUGIN_COUNTER = Metric("example_things_total", "counter", "Things.", ("kind",))
PLUGIN_GAUGE = Metric("example_level", "gauge", "A level.", ("kind",))
PLUGIN_HISTOGRAM = Metric("example_wait_seconds", "histogram", "Waits.", ("kind",), "seconds", (0.1, 1.0))


def peak(value: float) -> Peak:
    return Peak(value, "user", "a test")


PEAKS = Peaks(
    "example", {"float32": peak(1e12)}, {"float32": peak(1e11)}, peak(1e10), peak(1e11), (), peak(1e10), None, None,
)  # fmt: skip
NO_PEAKS = Peaks("example", {}, {}, None, None, (), None, None, "run jaxobs calibrate")


def new_fold(series_limit: int = 2_000) -> Fold:
    catalogue = Catalogue(CORE_METRICS)
    catalogue.declare([PLUGIN_COUNTER, PLUGIN_GAUGE, PLUGIN_HISTOGRAM], "example")
    return Fold(catalogue, CLOCK, BEGAN, RESOURCE, FACTS, series_limit)


def at(seconds: float) -> int:
    """An instant so many seconds after the process began."""
    return BEGAN + round(seconds * SECOND)


def run_seconds(fold: Fold, now: float) -> dict[str, float]:
    """What the process spent its time on, up to then."""
    document = fold.snapshot(at(now)).to_dict()["process"]
    assert sum(document["run_seconds"].values()) <= document["seconds"] + 1e-9
    return dict(document["run_seconds"])


def step(
    number: int, start: float, end: float, *, loop: str = "train", gap: float = 0.0, wait: float = 0.0,
    nested: float = 0.0, checkpoint: float = 0.0, examples: float | None = None, tokens: float | None = None,
    failed: bool = False, thread: int = 1, runs: tuple[int, ...] = (), parent: SpanContext | None = None,
) -> StepEnded:  # fmt: skip
    """A step by its times in seconds."""
    return StepEnded(
        loop, number, at(start), at(end), round(gap * SECOND), round(wait * SECOND), 0, round(nested * SECOND),
        round(checkpoint * SECOND), examples, tokens, failed, thread, runs, parent,
    )  # fmt: skip


def waits(time: float = 0.5, *, loop: str = "train") -> TurnsAsked:
    """At the end of each turn that was asked the device was done: the host waits for it in each step."""
    return TurnsAsked(loop, 9, 9, at(time))


def main_thread(start: float, end: float, *, loop: str = "train", **spent: float) -> MainThreadSampled:
    """Samples of the main thread: seconds by activity."""
    rows = tuple((loop, f"train.py:1 {word}", "", word, amount, 10) for word, amount in spent.items())
    return MainThreadSampled(at(start), at(end), rows)


def compiled(
    start: float, end: float, *, function: str = "f", phase: str = "backend", thread: int = 1
) -> Event:
    span = at(end) - at(start)
    return CompilePhaseEnded(function, phase, thread, at(start), at(end), span, True)


def backend(kind: str = "example") -> BackendFound:
    return BackendFound("gpu", ((0, kind, "uuid-0"), (1, kind, "uuid-1")), 0, 1, "0.10.2", "0.10.2", at(0.1))


def created(
    number: int, function: str = "f", devices: int = 1, proto: bytes | None = b"x"
) -> ExecutableCreated:
    reason = "" if proto else "the module has 9 bytes, more than 8"
    return ExecutableCreated(number, function, at(0.2), proto, reason, (("argument", 64),), devices)


def module(
    matrix: float = 1e9, moved: float = 1e6, fingerprint: str = "abc", operations: int = 1, **more: Any
) -> ModuleCost:
    cost = Cost(matrix_flops_by_type={"float32": matrix}, bytes=moved, **more)
    part = OperationCost("dot", "dot", "", "", "", operations, cost.scaled(1 / operations))
    return ModuleCost(fingerprint, cost, (part,))


def applied(fold: Fold, events: Iterable[Event]) -> Fold:
    for event in events:
        fold.apply(event)
    return fold


def families(snapshot: SnapshotData) -> dict[str, Mapping[tuple[str, ...], Any]]:
    return {family.metric.name: family.series for family in snapshot.families}


def counters(snapshot: SnapshotData) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every value that may only rise: counters, and of histograms each bucket and the sum."""
    for family in snapshot.families:
        for labels, value in family.series.items():
            name = (family.metric.name, *labels)
            if isinstance(value, HistogramValue):
                yield from (((*name, f"bucket {i}"), float(count)) for i, count in enumerate(value.counts))
                yield (*name, "sum"), value.sum
            elif family.metric.kind == "counter":
                yield name, value


def unexplained(value: Any, path: str = "") -> list[str]:
    """Where a document has a None without a reason beside it."""
    found = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            is_reason = key == "reason" or key.endswith("_reason")
            if item is None and not is_reason and not value.get(f"{key}_reason"):
                found.append(f"{path}.{key}")
            found += unexplained(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += unexplained(item, f"{path}[{index}]")
    return found


def parsed(found: Iterable[Family]) -> dict[str, Any]:
    """As the strict parser of OpenMetrics reads what is rendered."""
    text = render(found, RESOURCE, OPENMETRICS).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


MAY_BECOME_UNKNOWN = {"jaxobs_executable_runs_total", "jaxobs_executable_seconds_total", *WORK_OF_LOOPS}
"""Counters that go when it is no longer seen what they count."""


def check(snapshot: SnapshotData, before: Mapping[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """What holds of every snapshot. `before` are the counters of an earlier one; returns this one's."""
    document = snapshot.to_dict()  # raises where NaN or infinity is in it
    ((_, over_the_pipe),) = wire.Frames().feed(wire.frame(wire.REPLY, dict(snapshot.document)))
    assert json.loads(json.dumps(over_the_pipe)) == document
    assert unexplained(document) == []
    for name, loop in document["loops"].items():
        total = sum(loop["components"].values())
        assert math.isclose(total, loop["wall_seconds"], rel_tol=1e-9, abs_tol=1e-9), name
        shares = loop["bottleneck"]["shares"]
        assert not shares or math.isclose(sum(shares.values()), 1.0, rel_tol=1e-9)
        assert 0.0 <= loop["bottleneck"]["confidence"] <= 1.0
    charged = document["process"]["run_seconds"]
    assert set(charged) == set(CATEGORIES)
    assert sum(charged.values()) <= document["process"]["seconds"] + 1e-6
    for family in snapshot.families:
        for value in family.series.values():
            assert math.isfinite(value.sum if isinstance(value, HistogramValue) else value), (
                family.metric.name
            )
    now = dict(counters(snapshot))
    fallen = {
        name: (value, now.get(name))
        for name, value in before.items()
        if now.get(name, value if name[0] in MAY_BECOME_UNKNOWN else -1.0) < value
    }
    assert fallen == {}
    return now


instants = st.integers(BEGAN, BEGAN + 200 * SECOND)
durations = st.integers(0, 5 * SECOND)
names = st.sampled_from(["train", "eval", "f", "g"])
phases = st.sampled_from(["checkpoint", "initialisation", "x"])
numbers = st.integers(1, 4)
runs = st.integers(-2, 4)
contexts = st.none() | st.builds(
    SpanContext, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.just(1)
)
odd_numbers = st.sampled_from([math.nan, math.inf, -math.inf, -1.0, -0.0, 1e200]) | st.floats(0, 1e6)


@st.composite
def steps_ended(draw: st.DrawFn) -> StepEnded:
    start, length = draw(instants), draw(durations)
    nested = draw(st.integers(0, length))
    checkpoint = draw(st.integers(0, length - nested))
    return StepEnded(
        draw(names), draw(st.integers(0, 50)), start, start + length, draw(durations),
        draw(st.integers(0, length)), draw(st.integers(0, length)), nested, checkpoint,
        draw(st.none() | odd_numbers), draw(st.none() | odd_numbers), draw(st.booleans()), draw(numbers),
        tuple(draw(st.lists(runs, max_size=3))), draw(contexts),
    )  # fmt: skip


@st.composite
def main_thread_samples(draw: st.DrawFn) -> Event:
    start = draw(instants)
    row = st.tuples(
        names,
        names,
        names,
        st.sampled_from(["processor", "input", "device"]),
        st.floats(0, 1),
        st.integers(0, 9),
    )
    return MainThreadSampled(start, start + draw(durations), tuple(draw(st.lists(row, max_size=5))))


@st.composite
def phases_ended(draw: st.DrawFn) -> Event:
    start, length = draw(instants), draw(durations)
    exclusive = draw(st.integers(0, length))
    return CompilePhaseEnded(
        draw(names), draw(st.sampled_from(PHASES)), draw(numbers), start, start + length, exclusive,
        draw(st.booleans()),
    )  # fmt: skip


@st.composite
def compilations(draw: st.DrawFn) -> Event:
    start, length = draw(instants), draw(durations)
    phases = tuple((phase, start, start + length) for phase in draw(st.sets(st.sampled_from(PHASES))))
    return Compilation(
        draw(names), draw(numbers), draw(numbers), start + length, phases, "off",
        draw(st.none() | st.sampled_from(["shape", "other"])), (), draw(contexts),
    )  # fmt: skip


amounts = st.none() | st.integers(0, 10**10)
groups = st.tuples(names, names, names, st.integers(0, 9), st.integers(0, 10**9), names)
lines = st.tuples(names, st.integers(0, 9), st.integers(0, 10**9))

MADE_UP: dict[type[Event], st.SearchStrategy[Event]] = {
    StepEnded: steps_ended(),
    StepCompleted: st.builds(StepCompleted, names, st.integers(0, 50), instants, durations),
    TurnsAsked: st.builds(TurnsAsked, names, st.integers(0, 9), st.integers(0, 9), instants),
    LoopDeclared: st.builds(LoopDeclared, names, odd_numbers, instants),
    LoopEntered: st.builds(LoopEntered, names, instants),
    LoopEnded: st.builds(LoopEnded, names, instants, durations),
    PhaseStarted: st.builds(PhaseStarted, phases, st.none() | names, instants),
    PhaseEnded: st.builds(PhaseEnded, phases, st.none() | names, instants, instants, durations),
    Recorded: st.builds(Recorded, names | st.just(""), names, odd_numbers, instants, st.just("") | names),
    MainThreadSampled: main_thread_samples(),
    FunctionWatched: st.builds(FunctionWatched, st.integers(-2, -1), names, st.just("several executables"), instants),
    FunctionCalled: st.builds(FunctionCalled, runs, st.integers(0, 5), instants),
    ExecutableRan: st.builds(ExecutableRan, runs, odd_numbers, odd_numbers, instants),
    RunUnderWay: st.builds(RunUnderWay, runs, instants, instants),
    CompilePhaseStarted: st.builds(CompilePhaseStarted, names, st.sampled_from(PHASES), numbers, instants),
    CompilePhaseEnded: phases_ended(),
    Compilation: compilations(),
    ExecutableCreated: st.builds(created, numbers, names, st.integers(0, 8), st.none() | st.just(b"x")),
    BackendFound: st.just(backend()),
    MemorySampled: st.builds(
        MemorySampled, st.sampled_from([0, 1, PROCESS_MEMORY]), amounts, amounts, amounts, amounts, amounts,
        st.just("the backend tells nothing"), instants, amounts,
    ),
    LiveArraysCounted: st.builds(
        LiveArraysCounted, amounts, amounts, st.lists(groups, max_size=3).map(tuple),
        st.lists(lines, max_size=3).map(tuple), st.floats(0, 1), st.just("nothing is counted"), instants,
    ),
    StacksTaken: st.builds(
        StacksTaken,
        st.lists(
            st.tuples(st.integers(0, 3), names, names, names, names, st.tuples(names, names)),
            max_size=3,
        ).map(tuple),
        instants,
    ),
    ProfileWindow: st.builds(
        ProfileWindow, st.sampled_from(["scheduled", "requested"]), st.sampled_from(OUTCOMES), instants,
        instants, durations, st.none() | st.just(b"x"), st.just(""), st.just(""),
    ),
    Measured: st.builds(
        Measured, st.sampled_from(["example_things_total", "example_level", "example_wait_seconds", "nobodys"]),
        st.tuples(names) | st.tuples(names, names), odd_numbers, instants,
    ),
    SpanEnded: st.builds(SpanEnded, names, instants, instants, st.just(()), contexts),
    SourceReported: st.builds(
        SourceReported, names, st.sampled_from(["probe", "exporter"]), st.booleans(), odd_numbers, st.integers(0, 9),
        st.none() | instants, st.just(""), instants,
    ),
    ProbeReported: st.builds(
        ProbeReported, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.floats(0, 9),
        instants,
    ),
}  # fmt: skip
"""Events of each type, with any number that a user or a plugin may have put in."""

sound_events: st.SearchStrategy[Event] = st.one_of(steps_ended(), *MADE_UP.values())
"""Any event that a probe may send, in any order."""
