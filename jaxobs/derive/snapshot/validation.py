"""Numbers of a snapshot that contradict each other are not shown: each is withheld, with a reason that names both.

The tolerances are what the figures may be off by, and no more. A contradiction is a fault of ours, of a clock or of
a peak, and which of the two numbers is wrong cannot be told from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from jaxobs.derive.metrics.catalogue import executable_metrics, loop_metrics, process_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.report.units import duration
from jaxobs.roofline_model.bottleneck import Verdict

CLOCKS: Final = 1.1
"""Sums of sampled times against the wall clock: samples are right to within some per cent."""

PEAK: Final = 1.5
"""What may be above a peak: clocks above the nominal one (a third on processors), a peak measured on a machine that was a
little busy. One that was very busy gave a fifth of the true peak: nothing is shown against such a peak."""

CACHE: Final = 30.0
"""What may be above the peak of memory where data stays in cache. `jaxobs calibrate` saw a factor of 8 between working
sets of 256 KiB and 256 MiB on two cores; a host of many has as many private caches for one memory."""

SAMPLES: Final = 2.0
"""Sampled runs of a step against the step: samples are of other moments, and on a loaded machine the same step was seen
to take 7 s and 13 s within a minute."""

WHOLE: Final = 0.01
"""By how much shares may miss one, and the components of a loop its wall time."""

PACE: Final = 2.0 + 1e-9
"""Rate times step time, where nothing but steps is in the rate's seconds. Where it is just two, as of two steps of which
one was timed, rounding decides nothing."""

RATES: Final = ("steps_per_second", "examples_per_second", "tokens_per_second")
"""Of a host that has dispatched many steps, which its device has not begun, these are too high."""

PEAKS_AGAIN: Final = (
    "peaks that were measured on a busy machine are too low: `jaxobs calibrate` measures them again"
)

RESIDENT: Final = "stayed in cache"


GAUGES: Final = {
    "mfu": loop_metrics.MFU,
    "hfu": loop_metrics.HFU,
    "efficiency": executable_metrics.EXECUTABLE_EFFICIENCY,
    "achieved_flops_per_second": executable_metrics.EXECUTABLE_ACHIEVED,
}
"""Of what may be withheld, by its key in the document."""


INFORMATION: Final = {
    "seconds_per_run": executable_metrics.EXECUTABLE_BOTTLENECK,
    "bottleneck": loop_metrics.BOTTLENECK_INFO,
}
"""Of the verdicts that rest on what is withheld."""


class Contradiction(NamedTuple):
    """`keys` of a loop, by its name, or of an executable, by its place in the list, say what cannot be."""

    section: str
    place: Any
    keys: tuple[str, ...]
    why: str


class Validation:
    """Checks each snapshot; its `series` lack what is withheld, too, and each contradiction is counted once."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._counted: set[tuple[tuple[str, ...], str]] = set()

    def checked(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The document as it may be shown."""
        found = contradictions(document)
        for section, place, keys, _ in found:
            entry = document[section][place]
            labels = (place,) if section == "loops" else (entry["function"], entry["executable"] or "")
            for key in keys:
                if (metric := GAUGES.get(key)) is not None:
                    self._series.set(metric, labels, None)
                if (info := INFORMATION.get(key)) is not None:
                    verdict = entry["bottleneck"]
                    self._series.set(info, (*labels, verdict["label"], verdict["runner_up"] or ""), None)
                if (labels, key) not in self._counted:
                    self._counted.add((labels, key))
                    self._series.add(process_metrics.CONTRADICTIONS, (key,), 1.0)
        return withheld(document, found)


def contradictions(document: Mapping[str, Any]) -> list[Contradiction]:
    """All of a snapshot's document."""
    wall = document["process"].get("seconds")
    # Different devices may run one executable side by side, each for itself.
    room = None if wall is None else wall * max(1, len(document.get("devices") or []))
    found: list[Contradiction] = []
    for place, executable in enumerate(document.get("executables") or []):
        found += _of_executable(place, executable, room)
    for name, loop in (document.get("loops") or {}).items():
        found += _of_loop(name, loop)
    return found


def withheld(document: Mapping[str, Any], found: list[Contradiction]) -> dict[str, Any]:
    """The document without these figures; what it shares with older ones is left as it is."""
    shown = dict(document)
    for section, place, keys, why in found:
        entries = shown[section]
        if entries is document[section]:
            entries = shown[section] = entries.copy()
        absent: dict[str, Any] = dict.fromkeys(keys) | {f"{key}_reason": why for key in keys}
        if {"seconds_per_run", "bottleneck"} & set(keys):  # what it was limited by was found from its time
            absent["bottleneck"] = Verdict("unknown", 0.0, None, reason=why).to_dict()
        entries[place] = {**entries[place], **absent}
    return shown


def _of_executable(place: int, made: Mapping[str, Any], room: float | None) -> Iterator[Contradiction]:
    of_time = ("seconds", "seconds_per_run", "achieved_flops_per_second", "efficiency")
    spent, near = made.get("seconds"), made.get("efficiency")
    if spent is not None and room is not None and spent > CLOCKS * room:
        why = f"{made['runs']:g} runs of {duration(made['seconds_per_run'])} do not fit into {duration(room)}"
        yield Contradiction("executables", place, of_time, why)
    elif near is not None:
        most = CACHE if RESIDENT in (made.get("efficiency_reason") or "") else PEAK
        if near > most:
            why = (
                f"a bound of {duration(made['bound_seconds'])} and a run of {duration(made['seconds_per_run'])} "
                f"contradict each other by a factor of {near:.3g}; {PEAKS_AGAIN}"
            )
            yield Contradiction("executables", place, of_time, why)


def _of_loop(name: str, loop: Mapping[str, Any]) -> Iterator[Contradiction]:
    for key in ("mfu", "hfu"):
        ratio = loop.get(key)
        if ratio is not None and ratio > PEAK:
            why = f"{key.upper()} would be {ratio:.3g} of the peak; {PEAKS_AGAIN}"
            yield Contradiction("loops", name, (key,), why)
    yield from _of_shares(name, loop)
    step, rate = loop.get("step_seconds"), loop.get("steps_per_second")
    if step is not None and rate is not None and step * rate > PACE:
        why = f"steps of {duration(step)} and {rate:.3g} a second contradict each other"
        by_completions = loop.get("step_seconds_source") == "completions"  # which are the device's own
        yield Contradiction("loops", name, RATES if by_completions else ("step_seconds",), why)
    device = loop.get("device_seconds_per_step")
    if step is not None and device is not None and device > SAMPLES * step:
        why = f"a step of {duration(step)} has runs of {duration(device)} in it"
        by_completions = loop.get("step_seconds_source") == "completions"
        yield Contradiction(
            "loops", name, ("device_seconds_per_step" if by_completions else "step_seconds",), why
        )


def _of_shares(name: str, loop: Mapping[str, Any]) -> Iterator[Contradiction]:
    shares = (loop.get("bottleneck") or {}).get("shares")
    if shares and abs(sum(shares.values()) - 1.0) > WHOLE:
        why = f"shares that add up to {sum(shares.values()):.3g}, and not to 1"
        yield Contradiction("loops", name, ("bottleneck",), why)
    parts, wall = loop.get("components"), loop.get("wall_seconds")
    if parts and wall is not None and abs(sum(parts.values()) - wall) > WHOLE * wall:
        why = f"parts of {duration(sum(parts.values()))} in all, and a wall time of {duration(wall)}"
        yield Contradiction("loops", name, ("components",), why)
