"""What profiler windows show of one loop: how long the device was busy in its steps, and what it was busy with."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxobs.derive.profiler_windows.parts import CALLS, INPUT, LoopPart
from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.figure import figure
from jaxobs.roofline_model.bounds import sum_of_both
from jaxobs.roofline_model.traced import Profiled, ProfiledDevice

OLDEST, ALONE, NEWEST = 600 * NANOSECONDS, 3600 * NANOSECONDS, 3
"""How long a window's result is used, how long where none is newer, and of how many. A job that changes what it does
changes its executables or its pace as well; where the pace changes, as a device is throttled, three soon follow it. But
where one costs more than 1.2 s, as starting and stopping CUPTI may, the budget pays for the next after ten minutes."""

IDLE_DEVICE = 0.1
"""Share of the busiest device's busy time below which a device counts as taking no part in the loop."""

MAIN = 0.1
"""Least share of a loop's device time of its main executables, by which it is recognised as the same loop."""

AHEAD = 0.25
"""Share by which runs must differ from calls to show that the device did the work of steps outside the windows."""

RECORDED = 0.5
"""Least share of a window's time in which operations were recorded for those of a run that is longer than the window to
stand for it. The profiler does not record one that goes on at the window's beginning or end, so the device seems idle
where these are long."""


@dataclass(slots=True)
class Part:
    """One executable in a loop's steps, on one device (the average of those that took part)."""

    function: str = ""
    runs: float = 0.0
    seconds: Counter[str] = field(default_factory=Counter)
    """Seconds of its operations, by what they are charged to."""
    run_seconds: float | None = 0.0
    """Seconds from each run's first operation to its last one's end; None where the traces do not tell runs apart."""

    calls: float | None = 0.0
    """Calls of its function in the whole steps; None where it ran with several executables in one window."""

    @property
    def seconds_per_run(self) -> float | None:
        """How long a traced run took; None where runs were not counted."""
        spent = self.run_seconds or sum(self.seconds.values())
        return spent / self.runs if self.runs > 0 else None


@dataclass(slots=True)
class LoopProfile:
    """What one or several windows show of a loop's steps in them.

    Seconds are of one device: the average of the devices that took part.
    """

    time: int = 0
    """End of the newest window, in monotonic nanoseconds."""
    windows: int = 0
    steps: float = 0.0
    seconds: float = 0.0
    active_seconds: float = 0.0
    input_seconds: float = 0.0
    busy_seconds: float = 0.0
    gap_seconds: float = 0.0
    """Seconds in which a run of an executable was under way and no operation ran."""
    input_busy_seconds: float = 0.0
    """Seconds in which the device worked while the loop waited for its input."""
    communication_seconds: float = 0.0
    operations: float = 0.0
    """How many operations ran."""
    whole_steps: float = 0.0
    """Steps that lay wholly in a window, in which calls were counted."""
    uneven: bool = False
    """Whether a window cut steps that are much longer than the whole ones in it, so that it holds no typical steps."""
    on_accelerator: bool = False
    """Whether its devices are no CPU."""
    parts: dict[str, Part] = field(default_factory=dict)
    """Executables by fingerprint; what belongs to no executable is under the empty fingerprint."""

    def to_dict(self) -> dict[str, Any]:
        """What is shown of it, as plain data."""
        labels, busy = self.labels(), self.device_seconds
        unmodelled = labels.get("unmodelled", 0.0) / busy if busy > 0 else None
        return {
            **{name: getattr(self, name) for name in _SHOWN},
            "seconds_by_bottleneck": labels,
            **figure(unmodelled, "the device did nothing").under("unmodelled_ratio"),
            "host_is_ahead": self.host_is_ahead,
        }

    def labels(self) -> dict[str, float]:
        """Seconds by what they are charged to; gaps inside a run are charged to `latency`."""
        total: Counter[str] = Counter({"latency": self.gap_seconds} if self.gap_seconds else {})
        for part in self.parts.values():
            total.update(part.seconds)
        return dict(total)

    @property
    def host_is_ahead(self) -> bool:
        """Whether the device worked on other steps than those that the host dispatched in the windows.

        In steady steps each executable runs as often as it is called, give or take one at either edge of a window. A
        host that runs ahead dispatches many steps in a moment, and then waits for the device in one long step. Where the
        device is busy for longer than the steps take without checkpoints, the host waited for it in one of these.
        """
        main = self.main()
        in_checkpoints = self.busy_seconds > (1 + AHEAD) * self.active_seconds
        return (
            self.uneven
            or in_checkpoints
            or any(
                abs(part.runs - called * self.steps) > max(AHEAD * called * self.steps, self.windows)
                for name, part in self.parts.items()
                if name in main and (called := self.calls_a_step(part)) and part.runs > 0
            )
        )

    def calls_a_step(self, part: Part) -> float | None:
        """How often a step calls an executable; None where that is not known."""
        return part.calls / self.whole_steps if part.calls and self.whole_steps > 0 else None

    @property
    def device_seconds(self) -> float:
        """Seconds in which the device was busy or between two operations of a run."""
        return self.busy_seconds + self.gap_seconds

    def main(self) -> frozenset[str]:
        """Fingerprints of the executables that take at least the share MAIN of the device's time."""
        spent = {name: sum(part.seconds.values()) for name, part in self.parts.items() if name}
        return frozenset(name for name, own in spent.items() if own >= MAIN * self.busy_seconds > 0)

    def leave_out(self, edges: float) -> None:
        """Scale the window down by the `edges` seconds at its edges in which nothing could be recorded."""
        kept = 1 - edges / self.seconds if self.seconds > 0 else 1.0
        self.seconds *= kept
        self.steps *= kept
        self.active_seconds *= kept
        self.input_seconds *= kept

    def add(self, other: LoopProfile) -> None:
        self.time = max(self.time, other.time)
        self.uneven = self.uneven or other.uneven
        self.on_accelerator = self.on_accelerator or other.on_accelerator
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for fingerprint, part in other.parts.items():
            mine = self.parts.setdefault(fingerprint, Part(part.function))
            mine.runs += part.runs
            mine.seconds.update(part.seconds)
            mine.run_seconds = sum_of_both(mine.run_seconds, part.run_seconds)
            mine.calls = sum_of_both(mine.calls, part.calls)


_SUMMED = (
    "windows", "steps", "seconds", "active_seconds", "input_seconds", "busy_seconds", "gap_seconds",
    "input_busy_seconds", "communication_seconds", "operations", "whole_steps",
)  # fmt: skip


_SHOWN = ("windows", "seconds", "steps", "busy_seconds", "gap_seconds", "communication_seconds")


def valid_profile(windows: deque[LoopProfile], time: int, compiled: Mapping[str, int]) -> LoopProfile | None:
    """The sum of the windows that are valid at `time`: not too old, and with the newest one's main executables.

    Older ones are forgotten. `compiled`: when executables of a function were last made in the loop's steps.
    """
    while windows and windows[0].time < time - (OLDEST if len(windows) > 1 else ALONE):
        windows.popleft()
    if not windows:
        return None
    newest, whole = windows[-1].main(), LoopProfile()
    for window in windows:
        if not newest or not (main := window.main()) or main & newest:
            whole.add(window)
    known = Counter(part.function for part in whole.parts.values())
    # A function that ran with several executables in the windows may have been compiled again for another of them.
    functions = (whole.parts[name].function for name in whole.main())
    is_of_old = any(known[each] == 1 and compiled.get(each, 0) > whole.time for each in functions)
    return None if is_of_old else whole


def loop_profile(
    name: str, part: LoopPart, profiled: Profiled, functions: Mapping[str, str], end: int
) -> LoopProfile | str:
    """What one window shows of a loop, or why it shows nothing.

    `functions` gives the function of each executable's fingerprint; `end` is the end of the window.
    """
    devices = [device for device in profiled.devices if name in device.trace.stretches]
    if not devices:
        return "the windows so far recorded no operation of a device in its steps"
    if cut := _only_parts_of(name, devices, profiled.only_parts()):
        return f"the last window was shorter than a run of `{cut.removeprefix('jit_')}`"
    least = IDLE_DEVICE * max(device.trace.stretches[name].busy_seconds for device in devices)
    devices = [device for device in devices if device.trace.stretches[name].busy_seconds >= least]
    length, waited = (seconds(sum(stop - start for start, stop in own)) for own in (part.spans, part.inputs))
    found = LoopProfile(end, 1, part.steps, length, part.active_seconds, waited)
    found.on_accelerator = devices[0].trace.platform != "cpu"
    for device in devices:
        _add_device(found, name, device, profiled, functions, 1 / len(devices))
    if not part.whole:
        found.uneven = bool(part.whole_steps)
        edges = sum(device.trace.stretches[name].edge_seconds for device in devices) / len(devices)
        found.leave_out(min(edges, 0.9 * length))
    found.whole_steps = part.steps if part.whole else part.whole_steps
    if found.whole_steps:
        _add_calls(found, profiled.calls.get(name if part.whole else name + CALLS, {}), functions)
    return found


def _only_parts_of(
    name: str, devices: Iterable[ProfiledDevice], only_parts: Container[tuple[str, str]]
) -> str | None:
    """A module of which the trace holds only parts of runs in the loop's steps; None where there is none.

    Such a trace is useless where an operation that is longer than the window was not recorded, so that the device seems
    idle; where it was seen to be busy for most of the time, parts of a run tell as much as whole ones.
    """
    for device in devices:
        stretch = device.trace.stretches[name]
        if stretch.busy_seconds >= RECORDED * stretch.seconds:
            continue
        for (module, identity, _), charged in zip(device.keys, stretch.charged_seconds, strict=True):
            if charged > 0 and (module, identity) in only_parts:
                return module
    return None


def _add_calls(found: LoopProfile, calls: Mapping[str, int], functions: Mapping[str, str]) -> None:
    """Set how often the steps called each executable, by its function's name.

    Runs on the device do not tell: a host that runs ahead calls at one time what runs at another.
    """
    by_function: dict[str, list[str]] = {}
    for fingerprint, part in found.parts.items():
        if fingerprint:
            by_function.setdefault(part.function, []).append(fingerprint)
    elsewhere = calls.keys() - by_function.keys()  # they ran on the device before or after these steps
    for fingerprint, function in functions.items():
        if function in elsewhere:
            by_function.setdefault(function, []).append(fingerprint)
    for function, fingerprints in by_function.items():
        for fingerprint in fingerprints:
            called = float(calls.get(function, 0)) if len(fingerprints) == 1 else None
            found.parts.setdefault(fingerprint, Part(function)).calls = called


def _add_device(
    found: LoopProfile,
    name: str,
    device: ProfiledDevice,
    profiled: Profiled,
    functions: Mapping[str, str],
    share: float,
) -> None:
    """Add what one device did, multiplied by `share`: one over the number of devices."""
    stretch = device.trace.stretches[name]
    found.busy_seconds += share * stretch.busy_seconds
    found.gap_seconds += share * stretch.gap_seconds
    found.communication_seconds += share * stretch.collective_seconds
    inputs = device.trace.stretches.get(name + INPUT)
    if inputs is not None:
        found.input_busy_seconds += share * (inputs.busy_seconds + inputs.gap_seconds)
    inside: Counter[int | None] = Counter()
    fingerprints: dict[int | None, str] = {}
    for time, key, charged in zip(device.trace.operations, device.keys, stretch.charged_seconds, strict=True):
        operation = profiled.operations[key]
        fingerprint = operation.fingerprint or ""
        fingerprints[time.program_id] = fingerprint
        function = functions.get(fingerprint) or (time.module or "").removeprefix("jit_")
        part = found.parts.setdefault(fingerprint, Part(function if fingerprint else ""))
        part.seconds[operation.label] += share * charged  # type: ignore[assignment]  # Counter adds floats as well
        inside[time.program_id] += charged  # type: ignore[assignment]
        if time.charged_seconds > 0:
            found.operations += share * time.count * charged / time.charged_seconds
    for ran in device.trace.modules:
        spent: float | None
        if ran.program_id in stretch.runs:
            (count, spent), within = stretch.runs[ran.program_id], share
        elif ran.runs and ran.charged_seconds > 0:
            count, spent = ran.runs, ran.run_seconds
            within = share * inside[ran.program_id] / ran.charged_seconds
        else:
            continue
        if fingerprint := fingerprints.get(ran.program_id, ""):
            part = found.parts[fingerprint]
            part.runs += within * count
            part.run_seconds = sum_of_both(part.run_seconds, None if spent is None else within * spent)
