"""The probes of this process: loaded, started, sampled once a second and stopped.

Plugins of jaxobs itself start on the calling thread, so that they run before JAX compiles anything, and share a thread
for their samples. One of somebody else does everything on a thread of its own: where it hangs or fails it holds up
neither the job nor the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial

from jaxobs.model.clock import monotonic
from jaxobs.model.events import SourceReported
from jaxobs.model.profile import ProfileResult
from jaxobs.plugin.base import Probe
from jaxobs.plugin.discovery import PROBES, Found, announced
from jaxobs.plugin.guard import Guard, Suppressed
from jaxobs.plugin.protocol import Job
from jaxobs.plugin.threads import MAX_CALL_SECONDS, Call, Flag, Thread

COMPILES = "compile"
"""The name of the probe that sees compiles."""

STOP_SECONDS = 1.0
"""Most seconds that the end of the job waits for all plugins of others together."""

STUCK_SECONDS = 5.0
"""Seconds after which a probe that has not returned is reported as not up, until it returns."""

TURN_SECONDS = 0.05
"""Most seconds to wait for all turns to end, so that their samples go to the agent at once. A turn takes 0.3 ms."""


class Turns:
    """Calls `first`, then `turn` each time that `begin` is called, and `last` after `stop`, all on one thread.

    None may raise. Raises RuntimeError where no thread can be started. `awaited`: as of `Thread`.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], None],
        *,
        first: Callable[[], None] = lambda: None,
        last: Callable[[], None] = lambda: None,
        awaited: bool = True,
    ) -> None:
        self._wanted = Call()
        self._ending = False
        self._done = Flag()
        self._done.set()
        self._thread = Thread(name, self._run, first, turn, last, awaited=awaited)

    def begin(self) -> Flag:
        """Begin a turn, unless the one before has not ended. Returns what is set at its end."""
        if self._done.is_set():
            self._done = Flag()
            self._wanted.make()
        return self._done

    def stop(self) -> None:
        """Let the thread end after what is under way."""
        self._ending = True
        self._wanted.make()

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread, after `stop`, for `timeout` seconds at most. Returns whether it came.

        Nobody waits for it a second time.
        """
        ended = self._thread.join(timeout)
        self._thread.awaited &= ended
        return ended

    def _run(self, first: Callable[[], None], turn: Callable[[], None], last: Callable[[], None]) -> None:
        first()
        while self._wanted.wait() and not self._ending:
            turn()
            self._done.set()
        last()


class Source:
    """One probe plugin. It is `ready` once it is loaded and started."""

    def __init__(self, plugin: Found, log: Callable[[str], None]) -> None:
        self.guard = Guard(plugin.source, "probe", log)
        self.guard.reason = "its start has not returned yet"
        self.built_in = plugin.built_in
        self.plugin: Probe | None = None
        self.ready = False
        self._load = plugin.load

    def begin(self, job: Job) -> None:
        """Load it and start it."""
        failures = self.guard.failures
        self.guard.call(self._begin, job)
        self.ready = self.guard.failures == failures

    def _begin(self, job: Job) -> None:
        # In one call, as one that could not be loaded is never up.
        found = self._load()
        if found.error:
            self.guard.fail(found.error)
        else:
            self.plugin = found.plugin
            found.plugin.start(job)

    def sample(self) -> None:
        """Sample the probe, about once a second. One that could not start has said why, and is not sampled."""
        plugin = self.plugin
        if not self.ready or plugin is None:
            return
        # The default method is not called: it would count as a success of a probe whose hooks all fail.
        if type(plugin).sample is not Probe.sample:
            self.guard.call(plugin.sample)
        with Suppressed(Exception):  # a property of the plugin's may raise anything
            self.guard.idle_reason = str(plugin.reason)

    def end(self) -> None:
        self.ready = False
        if self.plugin is not None:
            self.guard.call(self.plugin.stop)


class Sources:
    """All probes. `job_of` makes the `Job` that a probe is given, from its guard; `sample` comes first in each turn.

    And once more at the end, as what it reads may hang: a number of the user's own type.
    """

    def __init__(
        self, job_of: Callable[[Guard], Job], log: Callable[[str], None], sample: Callable[[], None]
    ) -> None:
        self.ended = False
        self._job_of = job_of
        self._log = log
        self._sample = sample
        self._sources: list[Source] = []
        self._own: Turns | None = None
        self._of_others: list[Turns] = []

    def __iter__(self) -> Iterator[Source]:
        return iter(self._sources)

    def start(self) -> None:
        """Start all probes; JAX must be imported. Returns when those of jaxobs itself have started."""
        self._sources = [Source(plugin, self._log) for plugin in announced(PROBES)]
        for source in self._sources:
            if not source.built_in:
                first = partial(source.begin, self._job_of(source.guard))
                try:
                    turns = Turns("probe", source.sample, first=first, last=source.end, awaited=False)
                    self._of_others.append(turns)
                except RuntimeError as error:
                    source.guard.fail(error)
        for source in self._sources:
            if source.built_in:
                source.begin(self._job_of(source.guard))

    def begin_sampling(self) -> None:
        """Start the thread that samples. Raises RuntimeError where none can be started."""
        self._own = Turns("sampling", self._sample_own, last=self._sample)

    def turn(self) -> Iterable[SourceReported]:
        """Sample all probes, without waiting for one that hangs, and report the state of each."""
        if not self.ended:
            deadline = monotonic() + TURN_SECONDS
            for done in [turns.begin() for turns in self._turns()]:
                done.wait(deadline - monotonic())
        return [source.guard.report(STUCK_SECONDS) for source in self._sources]

    def begin_profile(self, seconds: float, keep: bool | str) -> Future[ProfileResult] | str:
        """Ask the probe that takes profiles for a profiler window; otherwise the reason why there is none."""
        reason = "no probe takes profiles: is JAX imported?"
        for source in self._sources:
            plugin = source.plugin
            if plugin is not None and type(plugin).profile is not Probe.profile:
                begun = source.guard.call(plugin.profile, seconds, keep)
                if begun is not None:
                    return begun
                reason = source.guard.reason or reason
        return reason

    def stop(self, timeout: float) -> bool:
        """Stop all probes, and wait for the calls under way: for those of others at most STOP_SECONDS.

        Returns whether none hangs on the sampling thread.
        """
        self.ended = True
        deadline = monotonic() + min(timeout, STOP_SECONDS)
        for turns in self._turns():
            turns.stop()
        for source in self._sources:
            if source.built_in:
                source.end()
        ended = self._own is None or self._own.join(MAX_CALL_SECONDS)
        for turns in self._of_others:
            turns.join(deadline - monotonic())
        return ended

    def forget_in_child(self) -> None:
        """Let no probe run in a forked child: nothing takes its events, and threads of the parent may hold locks."""
        for source in self._sources:
            source.guard.close()

    def _turns(self) -> list[Turns]:
        return self._of_others if self._own is None else [self._own, *self._of_others]

    def _sample_own(self) -> None:
        self._sample()
        for source in self._sources:
            if source.built_in:
                source.sample()
