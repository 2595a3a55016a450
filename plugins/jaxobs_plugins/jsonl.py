"""Exporter `jsonl`: writes events as JSON lines, for reading or querying a run afterwards.

The file of a job on a host is `<host>-<pid>-<start>.jsonl` in the directory `jsonl_directory`. It begins with
a `Header` line. Each batch is one write of whole lines, so the file can be read line by line after a kill (which may
leave an incomplete last line). A full file is renamed to `….jsonl.1`, replacing an older one.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jaxobs.model.clock import ClockAnchor, now, seconds
from jaxobs.model.events import Event, Measured, SpanContext, units_of
from jaxobs.model.metrics import Catalogue
from jaxobs.plugin.base import Delivery, Exporter
from jaxobs.plugin.discovery import installed_versions
from jaxobs.plugin.files import GrowingFile, writing_remarks
from jaxobs.plugin.protocol import Agent, Batch, Remark
from jaxobs.vocabulary.text import valid_text

MAXIMUM_BYTES = 256 * 2**20
"""Largest size of one file; two are kept. Near a million events: a small training run wrote 281 bytes an event."""

PAIRS = frozenset({"attributes", "environment", "memory"})
"""Fields that hold (name, value) pairs, which are written as objects."""


def as_record(event: Event, clock: ClockAnchor, catalogue: Catalogue) -> dict[str, Any]:
    """An event as plain data: `event` (its type), `time` (Unix seconds), then its fields in their order.

    Instants become Unix seconds and durations seconds; bytes become their length under `<field>_bytes`.
    """
    fields = event._asdict()
    moment = fields.pop("time") if "time" in fields else fields["end"]
    kind: Any = type(event)
    units = units_of(kind)
    record: dict[str, Any] = {"event": kind.__name__, "time": clock.unix_seconds(moment)}
    for name, value in fields.items():
        if isinstance(value, bytes):
            record[f"{name}_bytes"] = len(value)
        elif units.get(name) == "instant" and value is not None:
            record[name] = clock.unix_seconds(value)
        elif units.get(name) == "duration":
            record[name] = seconds(value)
        elif name == "phases":
            record[name] = [
                {"phase": _plain(phase), "start": clock.unix_seconds(start), "end": clock.unix_seconds(end)}
                for phase, start, end in value
            ]
        elif name in PAIRS:
            record[name] = {_plain(key): _plain(item) for key, item in value}
        elif name == "labels" and isinstance(event, Measured):
            record[name] = _labels(event, catalogue)
        else:
            record[name] = _plain(value)
    return record


def as_line(record: Mapping[str, Any]) -> bytes:
    """A record as one line of strict JSON in ASCII, so that no reader sees the end of a line within it.

    What JSON has no form for becomes text: a plugin may put anything into an event.
    """
    text = json.dumps(record, allow_nan=False, separators=(",", ":"), default=str)
    return text.encode("ascii") + b"\n"


class JsonLinesExporter(Exporter):
    """Writes events if the setting `jsonl_directory` is given. Raises OSError where it cannot write."""

    _agent: Agent

    def __init__(self, maximum_bytes: int = MAXIMUM_BYTES) -> None:
        self._maximum_bytes = maximum_bytes
        self._file: GrowingFile | None = None
        self._dropped = 0
        """Events that could not be written."""

    def check(self, settings: Mapping[str, Any]) -> Iterable[Remark]:
        return writing_remarks(settings.get("jsonl_directory"), "events would be written to", _refused)

    def start(self, agent: Agent) -> None:
        self.takes_batches = bool(agent.settings.get("jsonl_directory"))
        self._agent = agent
        if not self.takes_batches:
            return
        path = Path(agent.settings["jsonl_directory"]) / _file_name(agent)
        self._file = GrowingFile(path, path.with_name(f"{path.name}.1"), self._maximum_bytes)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(b"")
        except OSError as error:
            raise OSError(error.errno, _refused(error.strerror), str(path)) from None

    def export(self, batch: Batch) -> None:
        agent = self._agent
        try:
            records = (as_record(event, agent.clock, agent.catalogue) for event in batch.events)
            self._append(b"".join(map(as_line, records)))
        except BaseException:
            self._dropped += len(batch.events)  # all of them: a write that falls short is undone
            raise

    def delivery(self) -> Delivery:
        """The state of delivery: events that could not be written are lost."""
        return Delivery(dropped=self._dropped)

    def stop(self, timeout: float) -> None:  # noqa: ARG002  # closing a file needs no deadline
        if self._file is not None:
            self._file.close()

    def _append(self, lines: bytes) -> None:
        """Append the lines in one write, after a header where the file has none for the present resource."""
        assert self._file is not None
        resource = dict(self._agent.resource)
        self._file.append(lines, resource, lambda: as_line(_header(resource, self._agent.clock)))


def _refused(reason: str | None) -> str:
    return f"cannot write events: {reason}; set JAXOBS_JSONL_DIRECTORY to a writable directory"


def _header(resource: Mapping[str, str], clock: ClockAnchor) -> dict[str, Any]:
    return {
        "event": "Header",
        "time": clock.unix_seconds(now()),
        "resource": dict(resource),
        "versions": {"python": platform.python_version(), **installed_versions("jaxobs", "jax", "jaxlib")},
    }


def _file_name(agent: Agent) -> str:
    start = datetime.fromtimestamp(seconds(agent.clock.wall), UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    host = re.sub(r"[^A-Za-z0-9._-]", "_", agent.resource.get("host.name") or platform.node())
    return f"{host}-{agent.resource.get('process.pid') or os.getpid()}-{start}.jsonl"


def _labels(event: Measured, catalogue: Catalogue) -> dict[str, str] | list[Any]:
    metric = catalogue.get(event.metric)
    if metric is None or len(metric.labels) != len(event.labels):
        return [_plain(value) for value in event.labels]
    return {name: _plain(value) for name, value in zip(metric.labels, event.labels, strict=True)}


def _plain(value: Any) -> Any:
    """A value in JSON's types: NaN and infinity become text, and lone surrogates are replaced."""
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, SpanContext):
        return {
            "trace_id": f"{value.trace_id:032x}",
            "span_id": f"{value.span_id:016x}",
            "flags": value.trace_flags,
        }
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
