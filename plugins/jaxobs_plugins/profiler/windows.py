"""Windows of our own: made when they are due or asked for, and told with what they cost. Runs on the worker's thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from jaxobs.model.clock import NANOSECONDS, now, seconds
from jaxobs.model.events import ProfileWindow
from jaxobs.model.profile import ProfileResult
from jaxobs.plugin.protocol import Job, Progress
from jaxobs_plugins.profiler.keeping import keep_trace
from jaxobs_plugins.profiler.modules import ModulesInTraces
from jaxobs_plugins.profiler.pace import Pace
from jaxobs_plugins.profiler.recording import OtherSession, Recorded, is_empty, record
from jaxobs_plugins.profiler.schedule import FIRST_LONGEST, SHORTEST, Schedule, Window
from jaxobs_plugins.profiler.turns import Turns

LONGEST_REQUEST = 60.0

STOP_PATIENCE = 5.0
"""A scheduled window whose `stop()` took longer is a fault: it is made so that it takes a fraction of a second."""


class ProfilerFaultError(RuntimeError):
    """The profiler did what it must not do to a training run."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Request:
    """A window that somebody asked for."""

    seconds: float
    keep: bool | str
    answer: Future[ProfileResult]


class Windows:
    """`session_type` is jaxlib's own class, so that windows of ours are not taken for the user's.

    `annotate` is told of a window of ours, and of its end with None.
    """

    def __init__(
        self,
        job: Job,
        module: Any,
        session_type: Any,
        turns: Turns,
        pace: Pace,
        annotate: Callable[[object | None], None],
    ) -> None:
        self._job = job
        self._module = module
        self._session_type = session_type
        self._turns = turns
        self._pace = pace
        self._maximum_bytes = int(job.settings["profile_maximum_bytes"])
        ratio = float(job.settings["profile_budget_ratio"])
        self.schedule = Schedule(ratio, self._maximum_bytes, time.monotonic())
        self._annotate = annotate
        self._modules = ModulesInTraces(self._maximum_bytes)
        self._tried: tuple[int | None, int] | None = None

    def due(self, progress: Progress) -> float:
        """When the next scheduled window may begin, in seconds of the monotonic clock.

        Sooner than usual where something was compiled since the last, or the agent that was told of it is gone.
        """
        renewed = self._tried is not None and self._tried != (progress.compiled, progress.agents)
        return self.schedule.due(renewed=renewed)

    def scheduled(self) -> None:
        """Make the window that is due. Raises what the profiler raises, and ProfilerFaultError."""
        progress = self._job.progress()
        self._tried = (progress.compiled, progress.agents)
        try:
            event = self._window("scheduled", self.schedule.next_length(self._pace.step_seconds))
        except ProfilerFaultError:
            raise
        except Exception as error:
            self._job.emit(_nothing("scheduled", "failed", describe(error)))
            raise
        if event is not None:
            self._job.emit(event)

    def requested(self, request: Request) -> None:
        """Make a window that was asked for, and answer."""
        try:
            length = min(max(request.seconds, 0.001), LONGEST_REQUEST)
            if self.schedule.length is None and length > FIRST_LONGEST:
                self._first_look()
            event = self._window("requested", length, request.keep)
        except Exception as error:
            reason = describe(error)
            self._job.emit(_nothing("requested", "failed", reason))
            answer(request, ProfileResult("failed", "", reason))
            raise
        if event is not None:
            self._job.emit(event)
            answer(request, ProfileResult(event.outcome, event.path, event.reason))

    def _first_look(self) -> None:
        """How many events a second the job makes must be known before a long window."""
        event = self._window("scheduled", 2 * SHORTEST)
        if event is not None:
            self._job.emit(event)

    def _window(self, kind: str, wanted: float, keep: bool | str = False) -> ProfileWindow | None:
        """None where all is over."""
        if not self._turns.begin_ours():
            return (
                self._skipped(kind, "the job has a session of its own") if not self._turns.stopped else None
            )
        longest = max(self.schedule.longest(), SHORTEST)
        rate = self._pace.rate
        before = self._job.progress()
        last = before.steps

        def wait() -> bool:
            nonlocal last
            whole = self._turns.record(min(wanted, longest))
            last = self._job.progress().steps
            return whole

        modules = self._modules.wanted(before, time.monotonic(), kept=bool(keep))
        self._annotate(self)
        try:
            recorded = record(self._module, self._session_type, wait, modules=modules)
        except OtherSession as error:
            return self._skipped(kind, f"somebody else has a session: {error}"[:300])
        finally:
            self._turns.end_ours()
            self._annotate(None)
            self._pace.interrupted()
        if self._turns.stopped and recorded.xspace is None:
            return None
        length = max(seconds(recorded.end - recorded.start), 1e-6)
        window = Window(
            length,
            seconds(recorded.start - recorded.starting),
            seconds(recorded.stopped - recorded.end),
            len(recorded.xspace or b""),
            last - before.steps,
            None if rate is None else rate * length,
        )
        event = self._told(kind, recorded, window, keep, cut=kind == "requested" and wanted > longest)
        self._account(kind, event, window)
        if modules and event.xspace is not None:
            self._modules.given(before, time.monotonic())
        return event

    def _skipped(self, kind: str, reason: str) -> ProfileWindow:
        self.schedule = self.schedule.skipped(time.monotonic())
        return _nothing(kind, "user_session", reason)

    def _told(
        self, kind: str, recorded: Recorded, window: Window, keep: bool | str, *, cut: bool
    ) -> ProfileWindow:
        xspace, outcome, reason, path = recorded.xspace, "cut" if cut else "read", "", ""
        if cut:
            reason = f"it ended after {window.length:.2f} s, lest its trace have too many bytes"
        if xspace is None:
            outcome, reason = "user_session", "it was thrown away: the job began a session of its own"
        elif is_empty(xspace):
            outcome, reason, xspace = "empty", "no operation of a device is in the trace", None
            if window.usual_steps is not None:
                reason += ", though steps go on: it may be that each takes longer than the window"
        elif window.size > self._maximum_bytes:
            outcome, xspace = "too_large", None
            reason = f"{window.size} bytes are more than JAXOBS_PROFILE_MAXIMUM_BYTES={self._maximum_bytes}"
        if keep and recorded.xspace is not None:
            wall = time.time() - seconds(now() - recorded.start)
            path, failure = keep_trace(keep, self._job.settings["profile_directory"], recorded.xspace, wall)
            reason = "; ".join(filter(None, (reason, failure)))
        cost = int(window.cost * NANOSECONDS)
        return ProfileWindow(kind, outcome, recorded.start, recorded.end, cost, xspace, path, reason)

    def _account(self, kind: str, event: ProfileWindow, window: Window) -> None:
        at = time.monotonic()
        if event.outcome == "user_session":
            self.schedule = self.schedule.lost(window, at)
        elif kind == "requested":
            self.schedule = self.schedule.learnt(window, at)
        else:
            self.schedule = self.schedule.after(window, at, empty=event.outcome == "empty")
            if window.stopping > STOP_PATIENCE:
                self._job.emit(event)
                raise ProfilerFaultError(
                    f"stop() of a window of {window.length:.2f} s took {window.stopping:.1f} s"
                )


def describe(error: Exception) -> str:
    """An error as a reason."""
    return f"{type(error).__name__}: {error}"[:300]


def answer(request: Request, result: ProfileResult) -> None:
    """The first answer counts."""
    if not request.answer.done():
        request.answer.set_result(result)


def _nothing(kind: str, outcome: str, reason: str) -> ProfileWindow:
    at = now()
    return ProfileWindow(kind, outcome, at, at, 0, None, "", reason)
