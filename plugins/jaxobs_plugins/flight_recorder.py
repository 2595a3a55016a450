"""Exporter `flight_recorder`: keeps the last minutes of a run in a file of bounded size, for `jaxobs postmortem`.

Each second it appends one line of JSON with what is under way and how far each loop is, so that after the job, the agent
or both were killed the file tells what happened before. Two files of MAX_BYTES are kept, the older one as `….before`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.events import Span
from jaxobs.plugin.base import Exporter
from jaxobs.plugin.files import GrowingFile, why_not_kept
from jaxobs.plugin.protocol import Agent, Batch
from jaxobs.report.postmortem import BEFORE, RECORDER, Moment
from jaxobs.report.runs import is_kept, make_folder
from jaxobs.report.tables import gone_wrong

MAX_BYTES: Final = 500_000
"""Largest size of one of the two files: a line of a training run has some 400 bytes, so together they hold 40 minutes."""

MIN_APART: Final = 0.5
"""Least seconds between two lines of how far the loops are: a script that asks for a snapshot in each step makes a
hundred a second, which would leave the file some seconds of the run. By itself one comes after 0.7 s or more."""

MIN_SPAN: Final = 0.05
"""Seconds from which on a compile, phase or profiler window is kept."""

MAX_RECORDED: Final = 5
"""Values of the user's that are kept of each loop: a loss and what stands beside it."""

OF_PROCESS: Final = ("seconds", "counts_begin_seconds", "compiling", "phases", "running")
"""What is kept of the process: its age, since when steps are counted where an agent was lost, what is under way."""

KEPT_SPANS: Final = {"jax.compile", "jax.phase", "jax.profile"}


class FlightRecorder(Exporter):
    """Writes where the folder of a run is kept. An error is logged once, and it is tried again."""

    takes_events = False
    awaited = False
    _agent: Agent

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._file: GrowingFile | None = None
        self._said = False
        self._moment_at = -math.inf
        """When the last line of how far the loops are was taken, in monotonic seconds."""
        self._slowdowns: set[tuple[str, float, bool]] = set()
        """Those of the last snapshot, by loop and beginning, and whether they were over: they were kept."""
        self._stacks: tuple[Any, ...] = ()
        """The hang whose stacks were kept last, and where its loop stood."""

    def start(self, agent: Agent) -> None:
        self.takes_batches = agent.settings.get("run_folder") is not None
        self._agent = agent

    def export(self, batch: Batch) -> None:
        document = batch.snapshot.document
        if is_kept(self._agent.settings, document):
            at = self._agent.clock.unix_seconds(batch.snapshot.time)
            kept = self._slowdowns, self._stacks
            lines = [*self._spans(batch.spans), *self._new_slowdowns(at, document)]
            lines += self._new_stacks(at, document)
            taken = batch.snapshot.time / NANOSECONDS
            if not lines and not document["process"].get("ended") and taken - self._moment_at < MIN_APART:
                return
            if self._write([*lines, moment(at, document)]):
                self._moment_at = taken
            else:
                self._slowdowns, self._stacks = kept  # they are written with the next moment that can be

    def stop(self, timeout: float) -> None:  # noqa: ARG002  # closing a file needs no deadline
        if self._file is not None:
            self._file.close()

    def _spans(self, spans: tuple[Span, ...]) -> Iterator[Mapping[str, Any]]:
        for span in spans:
            seconds = (span.end - span.start) / NANOSECONDS
            if span.name in KEPT_SPANS and seconds >= MIN_SPAN:
                at = self._agent.clock.unix_seconds(span.end)
                yield {"at": at, "span": span.name, "seconds": seconds, "about": dict(span.attributes)}

    def _new_slowdowns(self, at: float, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        kept, self._slowdowns = self._slowdowns, set()
        for each in document.get("slowdowns") or ():
            key = each["loop"], each["began_seconds"], each["over"]
            self._slowdowns.add(key)
            if key not in kept:
                yield {"at": at, "slowdown": each}

    def _new_stacks(self, at: float, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """The stacks of all threads where a loop stands still: once, and again where its own thread is elsewhere."""
        for hang in document.get("hangs") or ():
            standing = hang["loop"], hang["began_seconds"], hang["line"]
            if hang["threads"] and not hang["over"] and standing != self._stacks:
                self._stacks = standing
                yield {"at": at, "stacks": hang["threads"], "loop": hang["loop"]}

    def _write(self, lines: list[Mapping[str, Any]]) -> bool:
        """Append the lines, to a file that begins with who the process is. Returns whether that could be done."""
        who, clock = dict(self._agent.resource), self._agent.clock
        try:
            if self._file is None:
                path = make_folder(self._agent.settings) / RECORDER
                self._file = GrowingFile(path, path.with_name(BEFORE), self._max_bytes, 0o600)
            head = {"at": clock.unix_seconds(now()), "who": who}
            self._file.append(b"".join(map(_line, lines)), who, lambda: _line(head))
            self._said = False
        except (OSError, ValueError) as error:
            if not (self._said or why_not_kept(self._agent.settings)):  # which the run's record has said
                why = getattr(error, "strerror", None) or error
                self._agent.log(f"the last minutes of the run are not kept: {why}")
            self._said = True
        return not self._said


def moment(at: float, document: Mapping[str, Any]) -> Moment:
    """What is kept of a snapshot: how far each loop is and how it goes, what is under way, memory, a hang."""
    process, memory = document["process"], document["process"].get("memory") or {}
    return {
        "at": at,
        "loops": {
            name: {
                "steps": loop["steps"],
                "step_seconds": loop["step_seconds"],
                "label": loop["bottleneck"]["label"],
                "recorded": dict(islice(_values(loop), MAX_RECORDED)),
                "leaps": {name: said for name, is_known, said in gone_wrong(loop) if is_known},
            }
            for name, loop in document["loops"].items()
        },
        **{key: process[key] for key in OF_PROCESS if process.get(key)},
        "memory": memory.get("in_use_bytes"),
        "devices": [
            (device.get("memory") or {}).get("in_use_bytes") for device in document.get("devices") or ()
        ],
        # The stacks have a line of their own: here they would fill the file.
        "hang": [
            {key: value for key, value in hang.items() if key != "threads"}
            for hang in document.get("hangs") or ()
            if not hang["over"]
        ],
        "ended": process.get("ended"),
    }


def _values(loop: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """The user's own values, None where one is not finite, without the reasons beside them."""
    recorded = (loop.get("recorded") or {}).items()
    return ((name, value) for name, value in recorded if not isinstance(value, str))


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
