"""Makes windows of our own when they are due or asked for, and reports them with their cost."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from jaxobs.model.clock import NANOSECONDS, monotonic, now, seconds, wall_now
from jaxobs.model.events import ProfileWindow
from jaxobs.model.profile import MAX_WINDOW, ProfileResult
from jaxobs.plugin.discovery import installed_versions
from jaxobs.plugin.files import write_whole
from jaxobs.plugin.guard import described
from jaxobs.plugin.protocol import Job, Progress
from jaxobs.report.runs import NO_FOLDER, make_folder
from jaxobs_plugins.probes.profiler.recording import (
    HELD_A_TRACED_BYTE,
    MAX_HELD,
    UNWATCHED_SECONDS,
    Allocated,
    Ended,
    OtherSession,
    Recorded,
    SessionLock,
    is_empty,
    record,
    usually_allocated,
    watched,
    worked,
)
from jaxobs_plugins.probes.profiler.schedule import FIRST_SECONDS, Pace, Schedule, Window

FIRST_JAXLIB = (0, 8, 2)
"""First version of jaxlib with scheduled windows. In older ones `stop()` holds the interpreter lock throughout (65 ms
in 0.8.0), no operation of a CPU is recorded, and up to 0.7.2 each session writes a line to the console."""

OTHER_PROFILERS = ("NSYS_PROFILING_SESSION_ID", "NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "CUDA_INJECTION64_PATH")
"""Variables of a process into which CUDA loads Nsight Systems, Nsight Compute or another tool. CUPTI serves one tool at a
time: JAX's profiler then records nothing of the GPU, and writes an error to the console for each window."""

TRACES = Path("plugins") / "profile"
"""Where XProf finds raw traces: `<directory>/plugins/profile/<run>/<name>.xplane.pb`. It should show ranks that record at
the same time as the hosts of one run, so the run is named by the minute (UTC) and each file by its rank. Ranks whose
traces begin in different minutes make two runs."""

LEARNING_SECONDS = {"cpu": 0.01}
OTHERS_LEARNING_SECONDS = 0.05
"""By platform, for how many seconds, and of a processor, the rate of events is learnt: in a hundredth of a second a CPU
makes at most 50 000 of them."""

STOP_PATIENCE = 5.0
"""Seconds of `stop()` beyond which a scheduled window is a fault: it is planned to take a fraction of a second."""

MODULES_AGAIN_SECONDS = 1800.0
"""Seconds after which the modules of executables are sent again, because the agent may have forgotten some by then."""

MODULES_PART = 0.5
"""Part of the largest trace allowed that modules may fill; where they are larger, operations have times but no costs."""


class ProfilerFaultError(RuntimeError):
    """The profiler delayed the job far longer than a window may."""


class Windows:
    """Makes scheduled and requested windows and keeps the schedule up to date with them.

    It is made while `module` has jaxlib's own class of sessions, so that windows of ours are not taken for the user's.
    `annotate` is called with an object when a window of ours begins, and with None when it has ended.
    """

    def __init__(
        self,
        job: Job,
        module: Any,
        session_lock: SessionLock,
        pace: Pace,
        annotate: Callable[[object | None], None],
    ) -> None:
        self._job = job
        self._module = module
        self._session_type = module.ProfilerSession
        self._session_lock = session_lock
        self._pace = pace
        self._annotate = annotate
        self._allocated = Allocated()
        self._maximum_bytes = int(job.settings["profile_maximum_bytes"])
        ratio = float(job.settings["profile_budget_ratio"])
        self.schedule = Schedule(ratio, self._maximum_bytes, monotonic())
        self.to_keep: Future[ProfileResult] | None = None
        """Who waits for the next scheduled window, whose trace is kept in the run's folder."""
        self._tried: tuple[int | None, int] | None = None
        self._looked_at: int | None = None  # `Progress.compiled` at the last window
        self._modules_given: tuple[int | None, int] | None = None
        self._modules_given_at = 0.0

    def due(self, progress: Progress) -> float:
        """The time at which the next scheduled window may begin, in seconds of the monotonic clock.

        Sooner than usual where something was compiled since the last one, the agent was replaced, or one is to be kept.
        """
        renewed = self._tried is not None and self._tried != (progress.compiled, progress.agents)
        return self.schedule.due(renewed=renewed or self.to_keep is not None)

    def scheduled(self) -> None:
        """Make the window that is due. Raises what the profiler raises, and ProfilerFaultError."""
        progress = self._job.progress()
        self._tried = (progress.compiled, progress.agents)
        waiting, self.to_keep = self.to_keep, None
        self._report("scheduled", waiting, None, keep=waiting is not None)

    def requested(self, request: Future[ProfileResult], wanted: float, keep: bool | str) -> None:
        """Make a window of `wanted` seconds that was asked for, and answer the request. Raises likewise."""
        self._report("requested", request, min(max(wanted, 0.001), MAX_WINDOW), keep)

    def _report(
        self, kind: str, request: Future[ProfileResult] | None, wanted: float | None, keep: bool | str
    ) -> None:
        event = None
        try:
            event = self._window(kind, wanted, keep)
        except ProfilerFaultError:  # of a window that is reported
            raise
        except Exception as error:
            event = _nothing(kind, "failed", described(error)[:300])
            raise
        finally:
            if event is not None:
                self._job.emit(event)
                if request is not None:
                    answer(request, ProfileResult(event.outcome, event.path, event.reason))

    def _window(self, kind: str, wanted: float | None, keep: bool | str) -> ProfileWindow | None:
        """Make a window of `wanted` seconds (None: the schedule's length). Returns None if the probe has stopped."""
        if not self._session_lock.begin_ours():
            return self._skipped(kind, "the job has a session of its own")
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
        import jax

        before, rate = self._job.progress(), self._pace.rate
        if before.compiled != self._looked_at:
            self.schedule, self._looked_at = self.schedule.renewed(), before.compiled
        platform = str(jax.default_backend())
        learning = self._learn(platform, wanted or 0.0)
        length = self._length(wanted, platform)
        usual = None
        if platform == "cpu" and length > UNWATCHED_SECONDS:
            usual = usually_allocated(self._session_lock, self._pace.step_seconds, self._allocated)
        if not self._session_lock.record(0.0):  # the user's session must not wait for one more of ours
            return self._skipped(kind, "the job began a session of its own")
        modules = self._wants_modules(before, kept=bool(keep))
        max_held = max(MAX_HELD, int(HELD_A_TRACED_BYTE * self._maximum_bytes)) if wanted else MAX_HELD
        most = None if usual is None else usual + max_held
        watch = partial(watched, self._session_lock, length, self._allocated, most)
        steps_before = self._job.progress().steps
        recorded = record(self._module, self._session_type, watch, modules=modules)
        steps = self._job.progress().steps - steps_before
        # The user may have the profiler from here on, since keeping a trace can take a while.
        self._session_lock.end_ours()
        if self._session_lock.stopped and recorded.xspace is None:
            return None
        modules_size = before.module_bytes if modules else 0
        window = _measured(recorded, steps, rate, modules_size)
        window = replace(window, starting=window.starting + learning)
        cut = wanted is not None and wanted > length
        event = self._event(kind, recorded, window, keep, cut=cut)
        self._account(kind, event, window, refused=recorded.ended is Ended.REFUSED)
        if modules and event.xspace is not None:
            self._modules_given, self._modules_given_at = (before.compiled, before.agents), monotonic()
        return event

    def _length(self, wanted: float | None, platform: str) -> float:
        if wanted is not None:
            return min(wanted, self.schedule.longest_requested())
        length = self.schedule.next_length(self._pace.step_seconds)
        can_be_watched = platform != "cpu" or self._allocated.tells
        return length if can_be_watched else min(length, UNWATCHED_SECONDS)

    def _learn(self, platform: str, wanted: float) -> float:
        """Learn the rate of events from a short recording whose trace nobody sees. Returns what it cost, in seconds.

        Nothing is done if the rate is known, or if it cannot be high and the window that is `wanted` is not long.
        """
        if self.schedule.density is not None or (platform != "cpu" and wanted <= FIRST_SECONDS):
            return 0.0
        least = LEARNING_SECONDS.get(platform, OTHERS_LEARNING_SECONDS)
        watch = partial(worked, self._session_lock, least)
        recorded = record(self._module, self._session_type, watch, modules=False)
        learnt = _measured(recorded, 0, None)
        if recorded.xspace is not None:
            self.schedule = self.schedule.learnt(learnt)
        return learnt.cost

    def _wants_modules(self, progress: Progress, *, kept: bool) -> bool:
        """Whether the next window carries the modules of the job's executables; the profiler adds all of them, or none.

        The agent keeps those that it has decoded, so one window after each compile, and one for each agent, is enough:
        a job of many large modules would spend its windows on writing them out again and again (1 000 instructions:
        0.5 MB and 20 ms of `stop()`). One `kept` for XProf always carries them, if they fit.
        """
        if progress.module_bytes > MODULES_PART * self._maximum_bytes:
            return False
        if kept or self._modules_given != (progress.compiled, progress.agents):
            return True
        return monotonic() - self._modules_given_at > MODULES_AGAIN_SECONDS

    def _skipped(self, kind: str, reason: str) -> ProfileWindow | None:
        if self._session_lock.stopped:
            return None
        self.schedule = self.schedule.skipped(monotonic())
        return _nothing(kind, "user_session", reason)

    def _event(
        self, kind: str, recorded: Recorded, window: Window, keep: bool | str, *, cut: bool
    ) -> ProfileWindow:
        xspace, outcome, reason, path = recorded.xspace, "cut" if cut else "read", "", ""
        if cut:
            reason = f"it ended after {window.length:.2f} s, lest its trace have too many bytes"
        if recorded.ended is Ended.REFUSED:
            outcome, grew = "too_large", "memory grew too much, as with too many events"
            reason = f"it was thrown away after {window.length:.2f} s: {grew}"
        elif xspace is None:
            outcome, reason = "user_session", "it was thrown away: the job began a session of its own"
        elif is_empty(xspace):
            outcome, reason, xspace = "empty", "no operation of a device is in the trace", None
            if window.usual_steps is not None:
                reason += ": the loop has ended or waits, or its steps take longer than the window"
        elif len(xspace) > self._maximum_bytes:
            outcome = "too_large"
            reason = f"{len(xspace)} bytes are more than JAXOBS_PROFILE_MAXIMUM_BYTES={self._maximum_bytes}"
            xspace = None
        if keep and recorded.xspace is not None:
            wall = wall_now() / NANOSECONDS - seconds(now() - recorded.start)
            path, failure = keep_trace(keep, self._job.settings, recorded.xspace, wall)
            reason = "; ".join(filter(None, (reason, failure)))
        cost = int(window.cost * NANOSECONDS)
        lead = recorded.start - recorded.starting
        return ProfileWindow(kind, outcome, recorded.start, recorded.end, cost, xspace, path, reason, lead)

    def _account(self, kind: str, event: ProfileWindow, window: Window, *, refused: bool) -> None:
        at = monotonic()
        if event.outcome == "user_session":
            self.schedule = self.schedule.lost(window, at)
        elif refused:
            most = replace(window, size=int(MAX_HELD / HELD_A_TRACED_BYTE))  # as many as there may have been
            self.schedule = self.schedule.lost(window, at).learnt(most)
        elif kind == "requested":
            self.schedule = self.schedule.learnt(window)
        else:
            self.schedule = self.schedule.after(window, at, empty=event.outcome == "empty")
            if window.stopping > STOP_PATIENCE:
                self._job.emit(event)
                raise ProfilerFaultError(
                    f"stop() of a window of {window.length:.2f} s took {window.stopping:.1f} s"
                )


def keep_trace(
    keep: bool | str, settings: Mapping[str, Any], xspace: bytes, wall_time: float
) -> tuple[str, str]:
    """Write a trace below `keep`, or in the run's folder. Returns its path and why there is none."""
    import jax

    if keep is True and settings["run_folder"] is None:
        return "", f"the trace was not kept: {NO_FOLDER}; set JAXOBS_RUN_DIRECTORY"
    try:
        directory = keep if isinstance(keep, str) else str(make_folder(settings))
        return write_trace(directory, jax.process_index(), xspace, wall_time), ""
    except (OSError, ValueError) as error:  # a path with a null character
        return "", f"the trace could not be kept: {error}"


def write_trace(directory: str, rank: int, xspace: bytes, wall_time: float) -> str:
    """Write a trace, never over another one. Returns its path. Raises OSError where it cannot be written."""
    moment = time.gmtime(wall_time)
    # The second name is for a rank that has a trace in this minute already.
    for run in ("%Y_%m_%d_%H_%M", "%Y_%m_%d_%H_%M_%S"):
        folder = Path(directory) / TRACES / time.strftime(run, moment)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"rank_{rank:05d}.xplane.pb"
        if not os.path.lexists(path):
            write_whole(path, xspace)  # XProf may look at any time
            return str(path)
    raise FileExistsError(f"{path} is there already")


def why_not_scheduled(settings: Mapping[str, Any], jaxlib: tuple[int, ...]) -> str:
    """The reason why no windows are scheduled, empty where they are. `jaxlib` is its version, empty where unknown."""
    asked = "those that are asked for are made"
    if settings.get("profile_budget_ratio", 1.0) <= 0:
        return f"no profiler windows are scheduled: JAXOBS_PROFILE_BUDGET_RATIO=0; {asked}"
    if attached := next((name for name in OTHER_PROFILERS if name in os.environ), ""):
        return f"no profiler windows are scheduled: {attached} is set, so another profiler has CUPTI; {asked}"
    if jaxlib < FIRST_JAXLIB:
        version = f"jaxlib {'.'.join(map(str, jaxlib))}" if jaxlib else "an unknown version of jaxlib"
        first = ".".join(map(str, FIRST_JAXLIB))
        return (
            f"no profiler windows are scheduled with {version}, whose profiler holds up the job; from {first} on they "
            f"are; {asked}"
        )
    return ""


def installed_jaxlib() -> tuple[int, ...]:
    """The installed version of jaxlib, such as (0, 8, 2), read without importing it; empty where it is not known."""
    numbers = re.match(r"\d+(\.\d+)*", installed_versions("jaxlib").get("jaxlib", ""))
    return tuple(map(int, numbers[0].split("."))) if numbers else ()


def answer(request: Future[ProfileResult], result: ProfileResult) -> None:
    """Answer a request. The first answer counts, even if another thread gives one at the same moment."""
    with contextlib.suppress(InvalidStateError):
        request.set_result(result)


def _measured(recorded: Recorded, steps: int, rate: float | None, modules_size: int = 0) -> Window:
    """The figures of a recording. `rate`: steps per second without the window; `modules_size`: bytes of no event."""
    length = max(seconds(recorded.end - recorded.start), 1e-6)
    size = len(recorded.xspace or b"")
    return Window(
        length,
        seconds(recorded.start - recorded.starting),
        seconds(recorded.stopped - recorded.end),
        max(size - modules_size, size // 10),
        steps,
        None if rate is None else rate * length,
    )


def _nothing(kind: str, outcome: str, reason: str) -> ProfileWindow:
    at = now()
    return ProfileWindow(kind, outcome, at, at, 0, None, "", reason)
