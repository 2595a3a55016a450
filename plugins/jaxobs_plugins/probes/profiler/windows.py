"""Makes windows of our own when they are due or asked for, and reports them with their cost, on the worker's thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any

from jaxobs.model.clock import NANOSECONDS, monotonic, now, seconds, wall_now
from jaxobs.model.events import ProfileWindow
from jaxobs.model.profile import ProfileResult
from jaxobs.plugin.guard import described
from jaxobs.plugin.protocol import Job, Progress
from jaxobs_plugins.probes.profiler.event_memory import HELD_A_TRACED_BYTE
from jaxobs_plugins.probes.profiler.modules import ModulesInTraces
from jaxobs_plugins.probes.profiler.pace import Pace
from jaxobs_plugins.probes.profiler.recorder import GLIMPSES, HELD, Ended, Look, Recorder, sees_a_cpu
from jaxobs_plugins.probes.profiler.recording import OtherSession, is_empty
from jaxobs_plugins.probes.profiler.schedule import DENSEST, FIRST_LONGEST, SHORTEST, Schedule, Window
from jaxobs_plugins.probes.profiler.session_lock import SessionLock
from jaxobs_plugins.probes.profiler.trace_files import keep_trace

LONGEST_REQUEST = 60.0

STOP_PATIENCE = 5.0
"""Seconds of `stop()` beyond which a scheduled window is a fault: it is planned to take a fraction of a second."""


class ProfilerFaultError(RuntimeError):
    """The profiler delayed the job far longer than a window may."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Request:
    """A window that somebody asked for."""

    seconds: float
    keep: bool | str
    answer: Future[ProfileResult]


class Windows:
    """Makes scheduled and requested windows and keeps the schedule up to date with them.

    `session_type` is jaxlib's own class, so that windows of ours are not taken for the user's. `annotate` is called
    with an object when a window of ours begins, and with None when it has ended.
    """

    def __init__(
        self,
        job: Job,
        module: Any,
        session_type: Any,
        session_lock: SessionLock,
        pace: Pace,
        annotate: Callable[[object | None], None],
    ) -> None:
        self._job = job
        self._recorder = Recorder(job, module, session_type, session_lock)
        self._session_lock = session_lock
        self._pace = pace
        self._maximum_bytes = int(job.settings["profile_maximum_bytes"])
        ratio = float(job.settings["profile_budget_ratio"])
        self.schedule = Schedule(ratio, self._maximum_bytes, monotonic())
        self._annotate = annotate
        self._modules = ModulesInTraces(self._maximum_bytes)
        self._tried: tuple[int | None, int] | None = None
        self._looked_at: int | None = None  # `Progress.compiled` at the last window

    def due(self, progress: Progress) -> float:
        """The time at which the next scheduled window may begin, in seconds of the monotonic clock.

        Sooner than usual where something was compiled since the last one, or the agent was replaced.
        """
        renewed = self._tried is not None and self._tried != (progress.compiled, progress.agents)
        return self.schedule.due(renewed=renewed)

    def scheduled(self) -> None:
        """Make the window that is due. Raises what the profiler raises, and ProfilerFaultError."""
        progress = self._job.progress()
        self._tried = (progress.compiled, progress.agents)
        try:
            event = self._window("scheduled", None)
        except ProfilerFaultError:
            raise
        except Exception as error:
            self._job.emit(_nothing("scheduled", "failed", described(error)[:300]))
            raise
        if event is not None:
            self._job.emit(event)

    def requested(self, request: Request) -> None:
        """Make a window that was asked for, and answer the request."""
        try:
            length = min(max(request.seconds, 0.001), LONGEST_REQUEST)
            event = self._window("requested", length, request.keep)
        except Exception as error:
            reason = described(error)[:300]
            self._job.emit(_nothing("requested", "failed", reason))
            answer(request, ProfileResult("failed", "", reason))
            raise
        if event is not None:
            self._job.emit(event)
            answer(request, ProfileResult(event.outcome, event.path, event.reason))

    def _window(self, kind: str, wanted: float | None, keep: bool | str = False) -> ProfileWindow | None:
        """Make a window of `wanted` seconds (None: the schedule's length). Returns None where the probe has stopped."""
        if not self._session_lock.begin_ours():
            stopped = self._session_lock.stopped
            return None if stopped else self._skipped(kind, "the job has a session of its own")
        self._annotate(self)
        try:
            return self._made(kind, wanted, keep)
        except OtherSession as error:
            return self._skipped(kind, f"somebody else has a session: {error}"[:300])
        finally:
            self._session_lock.end_ours()
            self._annotate(None)
            self._pace.interrupted()

    def _made(self, kind: str, wanted: float | None, keep: bool | str) -> ProfileWindow | None:
        rate, step = self._pace.rate, self._pace.step_seconds
        compiled = self._job.progress().compiled
        if compiled != self._looked_at:
            self.schedule, self._looked_at = self.schedule.renewed(), compiled
        ahead, glimpses = self._glimpses(wanted, rate, charged=kind == "scheduled")
        if not self._recorder.prepare():
            # Recording now would make the user's session wait for one of ours to begin and end.
            came = self._skipped(kind, "the job began a session of its own")
            return None if self._session_lock.stopped else came._replace(cost=int(glimpses * NANOSECONDS))
        longest = max(ahead.longest(), DENSEST)
        length = ahead.next_length(step) if wanted is None else min(wanted, longest)
        before = self._job.progress()
        modules = self._modules.wanted(before, monotonic(), kept=bool(keep))
        held = HELD if kind == "scheduled" else max(HELD, int(HELD_A_TRACED_BYTE * self._maximum_bytes))
        look = self._recorder.look(length, held, modules=modules, until_compiled=kind == "scheduled")
        # The user may have the profiler from here on, since keeping a trace can take a while.
        self._session_lock.end_ours()
        if self._session_lock.stopped and look.recorded.xspace is None:
            return None
        window = _measured(look, rate)
        cut = look.ended is Ended.EVENTS or (wanted is not None and wanted > longest)
        event = self._event(kind, look, window, keep, glimpses, cut=cut)
        self._account(kind, event, window, refused=look.ended is Ended.REFUSED)
        if modules and event.xspace is not None:
            self._modules.given(before, monotonic())
        return event

    def _glimpses(self, wanted: float | None, rate: float | None, *, charged: bool) -> tuple[Schedule, float]:
        """Make glimpses where the rate of events is unknown. Returns the schedule they imply, and their cost."""
        ahead, cost = self.schedule, 0.0
        if self.schedule.length is not None:
            return ahead, cost
        lengths = GLIMPSES if sees_a_cpu() else (2 * SHORTEST,) if (wanted or 0.0) > FIRST_LONGEST else ()
        for length in lengths:
            if wanted is not None and wanted < 2 * length:
                break
            if not self._recorder.prepare():
                break
            look = self._recorder.look(length, HELD, modules=False, until_compiled=False)
            glimpse = _measured(look, rate)
            cost += glimpse.cost
            refused = look.ended is Ended.REFUSED
            ahead = ahead.refused(glimpse, monotonic()) if refused else ahead.glimpsed(glimpse)
            if charged:
                self.schedule = self.schedule.charged(glimpse, monotonic())
            if look.ended is not Ended.WHOLE or ahead.next_length(None) < SHORTEST:
                break
        return ahead, cost

    def _skipped(self, kind: str, reason: str) -> ProfileWindow:
        self.schedule = self.schedule.skipped(monotonic())
        return _nothing(kind, "user_session", reason)

    def _event(
        self, kind: str, look: Look, window: Window, keep: bool | str, glimpses: float, *, cut: bool
    ) -> ProfileWindow:
        recorded = look.recorded
        xspace, outcome, reason, path = recorded.xspace, "cut" if cut else "read", "", ""
        if cut:
            reason = f"it ended after {window.length:.2f} s, lest its trace have too many bytes"
        if look.ended is Ended.REFUSED:
            outcome = "too_large"
            reason = f"it was thrown away: its events held {look.held} bytes after {window.length:.2f} s"
        elif xspace is None:
            outcome, reason = "user_session", "it was thrown away: the job began a session of its own"
        elif is_empty(xspace):
            outcome, reason, xspace = "empty", "no operation of a device is in the trace", None
            if window.usual_steps is not None:
                reason += ", though steps go on: it may be that each takes longer than the window"
        elif window.size > self._maximum_bytes:
            outcome, xspace = "too_large", None
            reason = f"{window.size} bytes are more than JAXOBS_PROFILE_MAXIMUM_BYTES={self._maximum_bytes}"
        if keep and recorded.xspace is not None:
            wall = wall_now() / NANOSECONDS - seconds(now() - recorded.start)
            path, failure = keep_trace(keep, self._job.settings["profile_directory"], recorded.xspace, wall)
            reason = "; ".join(filter(None, (reason, failure)))
        cost = int((window.cost + glimpses) * NANOSECONDS)
        return ProfileWindow(kind, outcome, recorded.start, recorded.end, cost, xspace, path, reason)

    def _account(self, kind: str, event: ProfileWindow, window: Window, *, refused: bool) -> None:
        at = monotonic()
        if event.outcome == "user_session":
            self.schedule = self.schedule.lost(window, at)
        elif kind == "requested":
            if not refused:
                self.schedule = self.schedule.learnt(window, at)
        elif refused:
            self.schedule = self.schedule.refused(window, at)
        else:
            self.schedule = self.schedule.after(window, at, empty=event.outcome == "empty")
            if window.stopping > STOP_PATIENCE:
                self._job.emit(event)
                raise ProfilerFaultError(
                    f"stop() of a window of {window.length:.2f} s took {window.stopping:.1f} s"
                )


def answer(request: Request, result: ProfileResult) -> None:
    """Answer a request. The first answer counts, even if another thread gives one at the same moment."""
    with contextlib.suppress(InvalidStateError):
        request.answer.set_result(result)


def _measured(look: Look, rate: float | None) -> Window:
    """The figures of a recording as a `Window`. `rate`: steps per second without the window."""
    recorded = look.recorded
    length = max(seconds(recorded.end - recorded.start), 1e-6)
    return Window(
        length,
        seconds(recorded.start - recorded.starting) + look.asking,
        seconds(recorded.stopped - recorded.end),
        len(recorded.xspace or b""),
        look.steps,
        None if rate is None else rate * length,
    )


def _nothing(kind: str, outcome: str, reason: str) -> ProfileWindow:
    at = now()
    return ProfileWindow(kind, outcome, at, at, 0, None, "", reason)
