"""The agent's work: receive events, fold them, swap the snapshot, and hand it to the exporters."""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import os
import pwd
import resource
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jaxobs.agent.analysis import Analysis, Done, WindowDone
from jaxobs.agent.exporting import LAST_TURN_SECONDS, STUCK_SECONDS, await_deliveries
from jaxobs.agent.plugins import load_plugins
from jaxobs.agent.silence import waits_for_us, why_silent
from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.derive.fold import Fold
from jaxobs.derive.loops.hangs import MIN_SECONDS, UNANSWERED, Hang
from jaxobs.flow import wire
from jaxobs.flow.job_pipe import JobPipe
from jaxobs.hardware.known_peaks import known_peaks
from jaxobs.hardware.peaks import Peaks
from jaxobs.identity import digest
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, monotonic, now, process_time, seconds
from jaxobs.model.events import (
    BackendFound,
    Event,
    ExecutableCreated,
    Measured,
    ProbeReported,
    ProfileWindow,
    SourceReported,
    SpanEnded,
    StepRows,
    steps_of_rows,
)
from jaxobs.model.metrics import Catalogue
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.discovery import COLLECTORS
from jaxobs.plugin.files import temporary_directory, why_not_kept, write_whole
from jaxobs.report.runs import SUMMARY, make_folder
from jaxobs.report.sentence import hang_sentence, plain, slowdown_sentence
from jaxobs.report.summary import render
from jaxobs.report.values import flat_values
from jaxobs.vocabulary.words import State

MIN_INTERVALS: Final = 0.7
MAX_INTERVALS: Final = 1.3
"""Limits of the time between two snapshots, in intervals. One follows the job's report, which ends what the job sends in
an interval, so that the agent wakes up once for both. It does not wait for a report that is late."""

FIRST_SECONDS: Final = 0.2
"""Seconds from the start to the first snapshot, if the interval is longer."""

OWNER_ALONE = 0o600
"""Permissions of the summary: it may be in the system's temporary directory, which everybody may read."""

SETTLE_SECONDS = 2.0
"""Most seconds to wait for modules that are being decoded, so that a requested snapshot has their costs. At most a
third of the caller's timeout: the rest is for the fold and, on a busy machine, for being scheduled at all."""

LAST_SETTLE_SECONDS = 0.4
"""Most seconds to wait for modules at the end of the job, which waits too: some 50 000 instructions of modules."""

DISK_SECONDS = 2.0
"""Most seconds to wait for the disk that the last summary is for: a home may lie on a mount that does not answer, and the
agent's last turn has at least five seconds."""

ANSWER_SECONDS = 0.1
"""Seconds of the job's patience that are left for the last snapshot to reach it."""


def resident_bytes() -> int:
    """Resident bytes now, by `/proc/self/statm`; where there is no such file, their peak, by getrusage(2)."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def summary_files(settings: Mapping[str, Any], name: str | None) -> list[Path]:
    """Where the summary is left: in the run's folder or, where that is not kept or fails, the temporary directory.

    Empty if there is neither, or the job has not sent its name. A directory whose disk does not answer is left out.
    """
    files: list[Path] = []

    def look() -> None:
        place, folder = temporary_directory(), settings.get("run_folder")
        if place and name:
            files.append(place.absolute() / f"jaxobs-{name}-killed.txt")
        if folder and why_not_kept(settings) is None:
            files.insert(0, Path(folder) / SUMMARY)

    _on_disk(look)
    return files.copy()


def _on_disk(work: Callable[[], None]) -> None:
    """Do it on a thread, and wait for at most DISK_SECONDS."""
    thread = threading.Thread(target=work, name="jaxobs-disk", daemon=True)
    thread.start()
    thread.join(DISK_SECONDS)


def leave_summary(settings: Mapping[str, Any], files: Sequence[Path], snapshot: SnapshotData) -> None:
    """Write the summary of a job that was killed. An error is ignored, because no job is left to report it to."""
    if not (snapshot["process"]["platform"] or snapshot["loops"]):
        return  # nothing of JAX ran in it
    how = "The job ended without a word: it was killed, ended by os._exit, or had no time for one."
    text = f"{how}\n{render(snapshot.document)}\n"
    for file in files:
        with contextlib.suppress(OSError):
            if file.name == SUMMARY:
                make_folder(settings)
            write_whole(file, text.encode("utf-8", "replace"), OWNER_ALONE)
            return


class Service:
    """One agent for one job. Implements `jaxobs.plugin.protocol.Agent` for its plugins."""

    def __init__(self, hello: Mapping[str, Any], pipe: JobPipe) -> None:
        self.settings: Mapping[str, Any] = hello["settings"]
        self.resource: dict[str, str] = dict(hello["resource"])
        self._run_ids: tuple[str, str] | None = hello.get("run_ids")
        self.clock = ClockAnchor(*hello["clock"])
        self.catalogue = Catalogue(CORE_METRICS)
        self._pipe = pipe
        self._send = pipe.send
        self._summary_files = summary_files(self.settings, hello.get("name"))
        self._summary_file = str(self._summary_files[0]) if self._summary_files else None
        self._values_asked = False
        """Whether flat values are sent with each snapshot: some 25 numbers, which take 20 µs here and 3 µs in the job."""
        self._values_heard: int | None = 0
        """When the job was last heard before the last of them: none are sent to a job that is silent since then."""
        self._arrived: deque[Measured | SpanEnded] = deque()
        self._peaks: deque[tuple[str, Peaks]] = deque()
        """By kind of device, found on a thread, because the home may lie on a disk that does not answer."""
        self._payloads: deque[memoryview] = deque()
        self._new_events: list[Event] = []
        self._logged: dict[str, float] = {}
        self._told: Hang | None = None
        """The hang of which the job's log was told."""
        self._tell_again = 0
        """When it is told again if it still lasts, in monotonic nanoseconds."""
        self._waited_for = False
        self._ending: State = "killed"
        """How the job ends, as it has said; that it was killed, before it has."""
        self._interval = float(self.settings["interval"])
        self._due = monotonic() + min(self._interval, FIRST_SECONDS)
        """When the next snapshot is made and exported, by `monotonic()`."""
        self._earliest = 0.0
        """When it is made at once if the job's report, which ends what it sends in an interval, has arrived."""
        self._analysis = Analysis(self.log, pipe.wake)
        self._plugins = load_plugins(self.catalogue, self.settings, self.log, self._arrived.extend)
        facts: dict[str, Any] = {"jaxobs": importlib.metadata.version("jaxobs"), "agent": "process"}
        facts |= hello.get("facts", {})
        facts["summary_file"] = self._summary_file
        facts["summary_file_reason"] = None if self._summary_file else "there is no directory to leave one in"
        facts |= {"ended": None, "ended_reason": "the end of the job has not been seen"}
        limit = int(self.settings["series_limit"])
        self.fold = Fold(
            self.catalogue, self.clock, hello["began"], self.resource, facts, limit, tuple(self._plugins.readings),
            hello.get("job"),
        )  # fmt: skip
        self.fold.observation.agent_pid = os.getpid()
        self.fold.slowdowns.alarms_per_hour = float(self.settings["slowdown_alarms_per_hour"])

    def start(self) -> None:
        if "process.owner" not in self.resource:
            _on_disk(self._find_owner)
        for exporter in self._plugins.exporters:
            exporter.start(self)
        for collector in self._plugins.collectors:
            collector.start(self)
        if self.fold.observation.address is None:
            # Where nothing is served the job is still told where its summary would be.
            self._send(wire.ADDRESS, (None, self._summary_file))
        # The default is 700: steps of seconds, soon released, would be traversed, for 0.24 ms a second (measured).
        gc.set_threshold(10_000)
        gc.freeze()  # what is loaded now stays, so no collection needs to traverse it

    def emit(self, event: Measured | SpanEnded) -> None:
        """Take an event of a plugin, on any thread; it is folded before the next snapshot or sooner."""
        self._arrived.append(event)

    def profile(self, seconds: float, keep: bool) -> None:
        self._send(wire.PROFILE, (float(seconds), bool(keep)))

    def announce_address(self, address: str) -> None:
        self.fold.observation.address = address
        self._send(wire.ADDRESS, (address, self._summary_file))

    def log(self, message: str) -> None:
        """Send a line to the job's logger, each message at most once a minute."""
        recent = {line: at for line, at in self._logged.copy().items() if monotonic() - at < 60.0}
        if message not in recent:
            self._logged = {**recent, message: monotonic()}
            self._send(wire.LOG, message)

    def serve(self, frames: wire.Frames, waiting: list[tuple[bytes, Any]]) -> None:
        """Receive and fold until the pipe ends or the job says that nothing follows; then flush a last time."""
        finish: tuple[float, State] | None = None
        while True:
            for kind, body in waiting:
                finish = self._take(kind, body) or finish
            # The job can so count the events lost with an agent that dies.
            if folded := sum(kind == wire.EVENTS for kind, _ in waiting):
                self._send(wire.FOLDED, folded)
            if finish is not None:  # nothing follows, and the job waits
                break
            if monotonic() >= self._due:
                self._new_snapshot()
                waited = self._waited_for
                self._waited_for = waits_for_us(self.resource.get("process.pid", ""))
                if waited and self._waited_for:
                    self.log("observing ends: the job waits until it has no child any more")
                    finish = 1.0, "running"  # how it ends is not seen
                    break
            readable, waiting = self._pipe.wait(self._due), []
            self._fold_arrivals()
            if readable:
                piece = self._pipe.receive()
                if not piece:
                    break
                self.fold.observation.last_heard = now()
                waiting = list(frames.feed(piece))
        self._end(*(finish or (None, self._ending)))

    def _take(self, kind: bytes, body: Any) -> tuple[float, State] | None:
        if kind == wire.EVENTS:
            self._fold(wire.events_of(body))
            self._payloads.clear()  # any that are left belonged to this frame's events
        elif kind == wire.PAYLOAD:
            self._payloads.append(body)
        elif kind == wire.REQUEST:
            self._answer(*body)
        elif kind == wire.VALUES:
            self._values_asked, self._due = True, monotonic()
        elif kind == wire.ENDING:
            self._ending = body
        elif kind == wire.FINISH:
            return float(body[0]), body[1]
        return None

    def _answer(self, number: int, until: int) -> None:
        """Answer a request for a snapshot, unless its caller has stopped waiting."""
        patience = seconds(until - now())
        if patience <= 0:
            return
        self._read_windows()
        self._analysed(self._analysis.settle(min(SETTLE_SECONDS, patience / 3)))
        self._send(wire.REPLY, (number, dict(self._new_snapshot().document)))

    def _fold(self, events: Iterator[Event | StepRows]) -> None:
        taken = self._plugins.events_are_taken
        for event in events:
            if isinstance(event, list):
                folded = self.fold.apply_steps(event)
                if taken:
                    self._new_events += steps_of_rows(folded)
                continue
            if isinstance(event, ExecutableCreated) and event.proto is not None:
                apart = not event.proto and self._payloads
                proto = self._payloads.popleft() if apart else event.proto
                self._analysis.submit(event.executable, proto, event.buffers)
            amended: Event = event
            if isinstance(event, ProfileWindow):
                amended = self._window(event)
            if isinstance(event, SourceReported) and event.up and event.source in self._plugins.undeclared:
                # It works in the job, but its metrics are not declared here, so its measurements are refused.
                reason = f"the agent cannot load it: {self._plugins.undeclared[event.source]}"
                amended = event._replace(up=False, reason=reason)
                self.log(f"{event.kind} {event.source} is not shown: {reason}")
            self.fold.apply(amended)
            if taken:
                self._new_events.append(_without_payload(amended))
            if isinstance(event, BackendFound):
                self._bind(event)
            if isinstance(event, ProbeReported):
                self._due = min(self._due, self._earliest)

    def _window(self, event: ProfileWindow) -> ProfileWindow:
        """The event with its trace, which came in a frame before it."""
        if event.kind == "scheduled" and event.path:
            self._log_of_rank(f"a trace of the slower steps is kept: {event.path}")
        if event.xspace != b"":
            return event
        return event._replace(xspace=bytes(self._payloads.popleft()) if self._payloads else None)

    def _fold_arrivals(self) -> None:
        taken = bool(self._arrived) and self._plugins.events_are_taken
        for _ in range(len(self._arrived)):
            # One by one, because plugins append on threads of their own meanwhile.
            event = self._arrived.popleft()
            self.fold.apply_own(event)
            if taken and isinstance(event, Measured | SpanEnded):
                self._new_events.append(event)
        while self._peaks:
            self.fold.bind_peaks(*self._peaks.popleft())
        self._analysed(self._analysis.finished())

    def _read_windows(self, *, final: bool = False) -> None:
        """Submit the profiler windows whose steps are known by now to the worker."""
        for window in self.fold.profiles.to_read(now(), final=final):
            self._analysis.submit_window(window)

    def _analysed(self, finished: list[Done]) -> None:
        for done in finished:
            if isinstance(done, WindowDone):
                self.fold.profiles.read(*done)
                if done.reason:
                    self.log(f"a profiler window could not be read: {done.reason}")
            else:
                self.fold.analysed(*done)

    def _bind(self, event: BackendFound) -> None:
        for name, value in event.environment:  # before the resource, at which collectors look
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        # Where JAX knows of itself alone, a launcher that started several processes tells them apart.
        launched = "jax.process_index" in self.resource and self.resource.get("jax.process_count") != "1"
        if event.process_count > 1 or not launched:
            self.resource["jax.process_index"] = str(event.process_index)
            self.resource["jax.process_count"] = str(event.process_count)
        if self._run_ids is not None:
            own, shared = self._run_ids
            shared = digest([shared, event.coordinator]) if event.coordinator else shared
            self.resource["jaxobs.run_id"] = shared if event.process_count > 1 else own
        if event.local_hardware_ids:
            self.resource["jax.local_hardware_ids"] = ",".join(map(str, event.local_hardware_ids))
        self.resource["jax.platform"] = event.platform  # last: by it collectors know that all is told
        _on_disk(lambda: self._find_peaks(event))
        self._fold_arrivals()  # the peaks too: what follows in this frame is held against them

    def _find_owner(self) -> None:
        """Note the user's name, whose table may lie on a network that does not answer."""
        with contextlib.suppress(KeyError, OSError):  # in a container, a number without a name
            self.resource["process.owner"] = pwd.getpwuid(os.geteuid()).pw_name

    def _find_peaks(self, event: BackendFound) -> None:
        try:
            for kind in {kind for _, kind, _ in event.devices}:
                found = known_peaks(
                    kind, event.platform, event.jaxlib_version, self.settings, devices=len(event.devices)
                )
                self._peaks.append((kind, found))
        except (ValueError, OSError) as error:
            self.log(f"peaks are unknown: {error}")

    def _watch(self) -> None:
        """Ask the job for its stacks where a loop stands still, and say what is known of it.

        It is said again when it has lasted twice as long, so that an hour takes eight lines. A job that does not answer
        would read them all when it is over.
        """
        if (thread := self.fold.stands_still(now())) is not None:
            self._send(wire.STACKS, thread)
        hang, told = self.fold.hangs.now, self._told
        if hang is None:
            if told is not None and self.fold.loops.named(told.loop).steps > told.steps:
                self._log_of_rank(f"`{told.loop}` goes on")
            self._told = None
        elif told is None or (now() >= self._tell_again and not hang.silence):
            if hang.silence == UNANSWERED:
                self.fold.hangs.silenced(why_silent(self.resource.get("process.pid", "")))
            self._told = hang = self.fold.hangs.now or hang
            self._tell_again = 2 * now() - hang.began
            self._log_of_rank(plain(hang_sentence(hang.to_dict(now(), self.fold.began))))

    def _log_of_rank(self, message: str) -> None:
        """Log it with the rank where there are several."""
        rank, count = (self.resource.get(f"jax.process_{key}", "") for key in ("index", "count"))
        self.log(message if count in {"", "1"} else f"rank {rank}: {message}")

    def _new_snapshot(self, at: int | None = None) -> SnapshotData:
        """Make a new snapshot, of that moment if one is given, and offer it to every exporter."""
        if (late := monotonic() - self._due) > MIN_SECONDS:
            self.fold.hangs.suspended(round(late * NANOSECONDS))
        self._earliest = monotonic() + MIN_INTERVALS * self._interval
        self._due = monotonic() + MAX_INTERVALS * self._interval
        self.clock.follow()
        self._fold_arrivals()
        self._watch()
        self._read_windows()
        for guard in self._plugins.guards:
            self.fold.apply_own(report := guard.report(STUCK_SECONDS))
            if guard.kind == "collector" and not report.up:
                self.fold.series.withdraw(f"{COLLECTORS}:{guard.source}")
        self.fold.observation.agent_measured(process_time(), resident_bytes())
        for exporter in self._plugins.exporters:
            self.fold.observation.exporter_dropped(exporter.guard.source, *exporter.dropped())
        self.fold.series.exemplars = any(each.sends_spans for each in self._plugins.exporters)
        snapshot = self.fold.snapshot(at or now())
        for slowdown in self.fold.slowdowns.take_news():
            self._log_of_rank(plain(slowdown_sentence(slowdown.to_dict(now(), self.fold.began, self.clock))))
            if slowdown.ended is None and self.settings.get("run_folder"):
                self.profile(0.0, keep=True)
        heard = self.fold.observation.last_heard
        if self._values_asked and heard != self._values_heard:
            self._values_heard = heard
            self._send(wire.VALUES, flat_values(snapshot.document))
        events, self._new_events = self._new_events, []
        spans = self.fold.spans.take()
        for exporter in self._plugins.exporters:
            exporter.offer(snapshot, events, spans)
        return snapshot

    def _end(self, patience: float | None, ended: State) -> None:
        """Flush a last time and stop. `patience`: the most seconds that the job waits; None if it was killed."""
        at = now()  # what is known of it may come seconds later, and other ranks end meanwhile
        until = monotonic() + (patience or 0.0) - ANSWER_SECONDS
        for exporter in self._plugins.exporters:
            exporter.job_ended()
        for collector in self._plugins.collectors:
            collector.stop()
        self._read_windows(final=True)
        settle = SETTLE_SECONDS if patience is None else min(LAST_SETTLE_SECONDS, patience / 3)
        self._analysed(self._analysis.settle(settle))
        self._fold_arrivals()
        self.fold.end(at, by_itself=patience is not None)
        self.fold.facts = {**self.fold.facts, "ended": ended, "ended_reason": None}
        snapshot = self._new_snapshot(at)
        began, timeout = monotonic(), max(LAST_TURN_SECONDS, patience or 0.0)
        for exporter in self._plugins.exporters:
            exporter.finish(timeout)
        if patience is None:
            _on_disk(lambda: leave_summary(self.settings, self._summary_files, snapshot.served_no_more()))
        else:
            undelivered = await_deliveries(self._plugins.exporters, began, until - monotonic())
            agent = {**snapshot.document["agent"], "undelivered": undelivered}
            self._send(wire.LAST, ({**snapshot.document, "agent": agent}, undelivered))
            self._pipe.end()  # the job waits for this, and need not wait for the rest
        for exporter in self._plugins.exporters:
            exporter.join(max(0.0, began + timeout - monotonic()))
        self._analysis.stop()
        self._pipe.close()


def _without_payload(event: Event) -> Event:
    """The event without its module or trace, for exporters: a slow one holds thousands, which would be gigabytes."""
    if isinstance(event, ProfileWindow):
        return event._replace(xspace=None)
    if isinstance(event, ExecutableCreated) and event.proto is not None:
        return event._replace(proto=None, proto_reason="the agent alone has it", buffers=b"")
    return event
