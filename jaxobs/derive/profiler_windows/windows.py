"""Profiler windows: those that wait to be read, and the results of those that were read."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.profiler_windows.loop_profile import NEWEST, LoopProfile, loop_profile, valid_profile
from jaxobs.derive.profiler_windows.operations import Operations
from jaxobs.derive.profiler_windows.parts import LoopPart, LoopSpans, parts_of
from jaxobs.derive.refusal import require
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import ProfileWindow
from jaxobs.model.figure import Figure, figure
from jaxobs.model.profile import OUTCOMES
from jaxobs.roofline_model.traced import Profiled

PATIENCE = 300 * NANOSECONDS
"""How long a window waits for the steps in it to end, which may take minutes: only then its time can be attributed."""

WAITING = 4
"""Most windows that wait to be read; when more come, the oldest is read with the steps that are known."""

NO_PEAKS = "no backend has been found yet"


@dataclass(frozen=True, slots=True)
class WindowToRead:
    """A window whose steps are known, with what is needed to read it."""

    event: ProfileWindow
    parts: Mapping[str, LoopPart]
    peaks: Peaks
    working_sets: Mapping[str, float]

    @property
    def stretches(self) -> dict[str, list[tuple[float, float]]]:
        """Stretches of the window in seconds of its trace's clock, by the name under which they are summed up."""
        start = self.event.start - self.event.lead
        return {
            name + suffix: [(seconds(begin - start), seconds(end - start)) for begin, end in spans]
            for name, part in self.parts.items()
            for suffix, spans in part.stretches.items()
            if spans
        }

    def without_trace(self) -> WindowToRead:
        """This window without the bytes of its trace, which are not needed once read."""
        return replace(self, event=self.event._replace(xspace=None))


class Profiles:
    """All profiler windows of the job. `limit` operations have series of their own."""

    def __init__(self, executables: Executables, limit: int) -> None:
        self._executables = executables
        self.loops: dict[str, LoopSpans] = {}
        """By name; each loop keeps its own up to date."""
        self._waiting: deque[ProfileWindow] = deque()
        self._of_loops: defaultdict[str, deque[LoopProfile]] = defaultdict(lambda: deque(maxlen=NEWEST))
        self._why: dict[str, str] = {}
        self.operations = Operations(limit)
        self.outcomes = Counter(dict.fromkeys(OUTCOMES, 0))
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.steps: defaultdict[str, float] = defaultdict(float)
        """Seconds and steps inside windows, by loop."""

    def ended(self, event: ProfileWindow) -> None:
        """Take a window that is over. Its trace, if it has one, is read when its steps are known."""
        require(event.end >= event.start and event.cost >= 0, "a profiler window of negative duration")
        require(event.outcome in OUTCOMES, "an outcome that is none")
        if event.xspace:
            self._waiting.append(event)
        else:
            self.outcomes[event.outcome] += 1

    def to_read(self, now: int, *, final: bool = False) -> list[WindowToRead]:
        """Take the windows that may be read now; `final`: nothing more will be known of their steps."""
        found = []
        while self._waiting and (final or len(self._waiting) > WAITING or self._is_known(now)):
            event = self._waiting.popleft()
            parts = parts_of(event.start, event.end, self.loops, event.lead)
            peaks = self._executables.peaks or Peaks("unknown", {}, {}, None, None, (), None, None, NO_PEAKS)
            found.append(WindowToRead(event, parts, peaks, self._executables.working_sets()))
        return found

    def read(self, window: WindowToRead, profiled: Profiled | None, reason: str = "") -> None:
        """Take the result of reading a window: None, with a reason, where it could not be read."""
        if profiled is None:
            self.outcomes["unreadable"] += 1
            self._why |= dict.fromkeys(window.parts, f"the last window could not be read: {reason}")
            return
        self.outcomes[window.event.outcome] += 1
        functions = self._executables.functions()
        self._executables.profiled(profiled)
        lasted = seconds(window.event.end - window.event.start)
        self.operations.add(profiled, functions, lasted)
        for name, part in window.parts.items():
            profile = loop_profile(name, part, profiled, functions, window.event.end)
            if isinstance(profile, str):
                self._why[name] = profile
                continue
            self._why.pop(name, None)
            self._of_loops[name].append(profile)
            self.seconds[name] += profile.seconds
            self.steps[name] += profile.steps

    def of(self, loop: str, time: int, compiled: Mapping[str, int]) -> Figure[LoopProfile]:
        """What the windows show of a loop at `time`; absent where no window is valid for it.

        `compiled`: when executables of a function were last made in the loop's steps.
        """
        why_none = self._why.get(loop, "no profiler window that holds for this loop has been read")
        return figure(valid_profile(self._of_loops[loop], time, compiled), why_none)

    def _is_known(self, now: int) -> bool:
        """Whether each loop that ran has ended a step after the oldest window, or the wait for that is over."""
        window = self._waiting[0]
        if now - window.end > PATIENCE:
            return True
        newest = ((spans.left, spans.log.newest) for spans in self.loops.values())
        ends = ((left, steps.end) for left, steps in newest if steps is not None)
        return all(left >= end or end >= window.end or end < window.start - PATIENCE for left, end in ends)
