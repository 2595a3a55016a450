"""Operations of a kept trace as `jaxobs analyze` reads them, beside JAX's own reader of traces."""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gpu_check.place import Place, jaxobs
from benchmarks.truths import Figure

MAX_OPERATIONS = 12
"""Operations that are compared one by one."""

TOLERANCE = 0.02

LATER_ON_A_CPU = 10.0
"""Times as long: there an operation that is handed to other threads ends later than its event, on one of those, which
`jaxobs analyze` follows and the reader here does not."""


class Event(NamedTuple):
    """One event of a device's line, in ns; `operation` is (module, instruction), or the event's name without either."""

    start: float
    end: float
    operation: tuple[str, str]


def own_seconds(path: Path) -> dict[tuple[str, str], float]:
    """Seconds by (module, instruction) without what is nested within, by JAX's own reader, of 0.7 and newer."""
    import jax

    found: dict[tuple[str, str], float] = defaultdict(float)
    with warnings.catch_warnings():
        # Python 3.12 warns of a type that this reader makes; as an error, it ends the process in C++ (jaxlib 0.11.2).
        warnings.simplefilter("ignore", DeprecationWarning)
        _read(jax.profiler.ProfileData.from_file(str(path)), found)
    return dict(found)


def _read(data: Any, found: dict[tuple[str, str], float]) -> None:
    for plane in data.planes:
        for line in plane.lines:
            # A GPU's other lines repeat what its streams say (xla/backends/profiler/gpu/cupti_collector.cc,
            # GetDeviceXLineName; the others are derived from them). A CPU's operations are on lines of its threads.
            if plane.name.startswith("/device:GPU:") and not line.name.startswith("Stream #"):
                continue
            if plane.name.startswith(("/device:GPU:", "/host:CPU")):
                for operation, nanoseconds in _self_times(_events(line.events, plane.name)):
                    found[operation] += nanoseconds / 1e9


def _events(events: Iterable[Any], plane: str) -> list[Event]:
    found = []
    for event in events:
        wanted = ("hlo_op", "hlo_module", "device_ordinal")
        stats = {name: value for name, value in event.stats if name in wanted}
        # The host's launches of a GPU's kernels have an hlo_op too, and no device_ordinal.
        if "hlo_op" in stats and (plane.startswith("/device:") or "device_ordinal" in stats):
            operation = (str(stats.get("hlo_module", "")), str(stats["hlo_op"]))
        elif plane.startswith("/device:GPU:") and not event.name.startswith("Memory"):
            operation = ("", event.name)  # a copy of the runtime's, or a whole command buffer
        else:
            continue
        found.append(Event(event.start_ns, event.start_ns + event.duration_ns, operation))
    return sorted(found, key=lambda event: (event.start, -event.end))


def _self_times(events: list[Event]) -> Iterator[tuple[tuple[str, str], float]]:
    """Each event's time less that of the events within it, on one line."""
    under_way: list[tuple[Event, float]] = []

    def ended(until: float) -> Iterator[tuple[tuple[str, str], float]]:
        while under_way and under_way[-1][0].end <= until:
            event, within = under_way.pop()
            yield event.operation, event.end - event.start - within

    for event in events:
        yield from ended(event.start)
        if under_way and event.end <= under_way[-1][0].end:
            outer, within = under_way[-1]
            under_way[-1] = (outer, within + event.end - event.start)
        under_way.append((event, 0.0))
    yield from ended(float("inf"))


def judge(place: Place, path: Path) -> Iterator[Figure]:
    """How `jaxobs analyze` and JAX's reader agree, and what is not modelled."""
    report: dict[str, Any] = json.loads(jaxobs("analyze", str(path), "--json"))
    place.keep_json("analysis.json", report)
    import jax

    if getattr(jax.profiler, "ProfileData", None) is None:
        reason = f"JAX {jax.__version__} has no reader of traces of its own"
        yield Figure("operations of the trace", reason=reason)
        return
    truth = own_seconds(path)
    if not truth:
        yield Figure(
            "operations of the trace", reason="JAX's own reader finds no operation of a device in it"
        )
        return
    found: dict[tuple[str, str], float] = defaultdict(float)
    for row in report["operations"]:
        found[row["module"] or "", row["name"]] += row["self_seconds"]
    yield _compared(place, "operations of the trace, all together", sum(found.values()), sum(truth.values()))
    seconds_by_name: dict[str, float] = defaultdict(float)
    for (_, name), seconds in found.items():
        seconds_by_name[name] += seconds
    for (module, name), seconds in sorted(truth.items(), key=lambda pair: -pair[1])[:MAX_OPERATIONS]:
        mine = found.get((module, name), seconds_by_name.get(name))
        yield _compared(place, f"operation {name} of {module or 'no module'}", mine, seconds)
    share = report["unmodelled_share"]
    yield Figure("unmodelled share of the trace", share, between=(0.0, 0.02), reason="nothing ran")


def _compared(place: Place, name: str, found: float | None, truth: float) -> Figure:
    between = None if place.on_gpu else ((1 - TOLERANCE) * truth, LATER_ON_A_CPU * truth)
    reason = "jaxobs has no operation of that name"
    return Figure(name, found, truth, relative=TOLERANCE, between=between, unit="s", reason=reason)
