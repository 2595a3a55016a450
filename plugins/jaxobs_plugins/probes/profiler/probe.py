"""The profiler probe: hooks the user's sessions, decides once a second whether a window is due, and ends cleanly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from jaxobs.jax_compat.runtime import backend_exists, profiler_module
from jaxobs.model.clock import monotonic
from jaxobs.model.profile import ProfileResult
from jaxobs.plugin.base import Probe
from jaxobs.plugin.guard import described
from jaxobs.plugin.protocol import Job, Remark
from jaxobs.plugin.threads import Thread
from jaxobs_plugins.probes.profiler.recording import SessionLock
from jaxobs_plugins.probes.profiler.schedule import Pace
from jaxobs_plugins.probes.profiler.user_sessions import Sessions, UserTrace, watch_sessions, window_of
from jaxobs_plugins.probes.profiler.windows import Windows, answer, installed_jaxlib, why_not_scheduled

USER_PATIENCE = 10.0
"""Seconds that a session of the user's waits for ours to end; discarding a trace of 60 000 events took 36 ms."""

JOIN_SECONDS = 30.0
"""Seconds to wait for a thread at the end, longer than any `stop()`: one left in the
profiler would abort the process."""


class ProfilerProbe(Probe):
    """The probe `profiler`. `start` makes no session and no thread; each window has a thread of its own."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self.reason = ""
        """Why no window is scheduled; empty where windows are."""

    def check(self, settings: Mapping[str, Any]) -> Iterable[Remark]:
        jaxlib = installed_jaxlib()
        if jaxlib and (reason := why_not_scheduled(settings, jaxlib)):
            yield Remark(reason)

    def start(self, job: Job) -> None:
        module = profiler_module()
        if module is None:
            job.switch_off("this version of JAX has no profiler that jaxobs knows")
            return
        self._requests: set[Future[ProfileResult]] = set()
        self._session_lock = SessionLock()
        self._pace = Pace()
        self._threads: list[Thread] = []
        self._one_at_a_time = threading.Lock()
        self._windows = Windows(job, module, self._session_lock, self._pace, self._annotate)
        self._maximum_bytes = int(job.settings["profile_maximum_bytes"])
        self.reason = why_not_scheduled(job.settings, installed_jaxlib())
        self._job = job
        self._sessions = Sessions(job.guard(self.coming), job.guard(self.over), job.guard(self.traced))
        self._unhook = watch_sessions(module, self._sessions)
        job.annotate_steps(None)

    def sample(self) -> None:
        """Sample the pace, and make a window where one is due; called once a second."""
        job = self._job
        # Once the main thread has ended no thread is begun.
        if job is None or not threading.main_thread().is_alive():
            return
        self._sessions.end_dropped()
        if self.reason:
            return
        progress = job.progress()
        self._pace.look(progress, monotonic())
        due = monotonic() >= self._windows.due(progress)
        if due and self._pace.is_steady() and self.is_idle():
            self._give(self._windows.scheduled)

    def profile(self, seconds: float, keep: bool | str) -> Future[ProfileResult]:
        """Make a window as soon as none is under way; the future is resolved with its result.

        With 0 seconds it is the next scheduled one, which comes as soon as those before it are paid for.
        """
        request: Future[ProfileResult] = Future()
        if self._job is None:
            answer(request, ProfileResult("failed", "", "profiler windows are switched off"))
        elif not backend_exists():
            answer(request, ProfileResult("failed", "", "JAX has made no backend yet"))
        else:
            self._sessions.end_dropped()
            if not seconds:  # one window answers all who wait for it
                self._windows.to_keep = request = self._windows.to_keep or request
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)
            if seconds:
                self._give(partial(self._windows.requested, request, seconds, keep))
        return request

    def stop(self) -> None:
        if self._job is not None:
            self._end("the observer has ended")
            for thread in self._threads:
                thread.join(JOIN_SECONDS)

    def coming(self, key: int) -> None:
        """Note that the user's thread is about to make a session, and wait until ours has ended."""
        if self._job is not None:
            self._session_lock.user_comes(key, USER_PATIENCE)
            self._annotate(None)

    def over(self, key: int) -> None:
        if key in self._session_lock.users:
            self._session_lock.user_goes(key)
            self._annotate(None)

    def traced(self, trace: UserTrace) -> None:
        if (job := self._job) is not None:
            self._give(lambda: job.emit(window_of(trace, self._maximum_bytes)))

    def is_idle(self) -> bool:
        """Whether all that was asked for is done."""
        return all(thread.join(0.0) for thread in self._threads)

    def _give(self, task: Callable[[], None]) -> None:
        """Begin a task on a thread of its own. Raises RuntimeError where none can be started."""
        self._threads = [thread for thread in self._threads if not thread.join(0.0)]
        self._threads.append(Thread("profiler", self._run, task))

    def _run(self, task: Callable[[], None]) -> None:
        with self._one_at_a_time:
            if self._job is not None:
                try:
                    task()
                except Exception as error:  # noqa: BLE001  # an error of the profiler must not end on the job's console
                    self._fault(described(error)[:300])

    def _annotate(self, ours: object | None) -> None:
        """Have steps annotated while there is any session, the user's or ours (None: ours has ended)."""
        if self._job is not None:
            self._job.annotate_steps(self if self._session_lock.users else ours)

    def _fault(self, reason: str) -> None:
        """End everything after a fault of the profiler, which is not risked twice."""
        if (job := self._job) is not None:
            self._end(reason)
            job.switch_off(reason)

    def _end(self, reason: str) -> None:
        job, self._job = self._job, None
        self._unhook()
        self._session_lock.stop()
        for request in list(self._requests):
            answer(request, ProfileResult("failed", "", reason))
        if job is not None:
            job.annotate_steps(None)
