"""Device time and host time by call path in the format of pprof, which `go tool pprof`, Pyroscope and Speedscope read.

Fields are those of google/pprof, ``proto/profile.proto``.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from operator import sub
from typing import Any, Final

from jaxobs.proto.messages import message_classes
from jaxobs.report.flame_graph import host_time, leaves, name_of, operations_of, part_of
from jaxobs.report.tables import Row
from jaxobs.vocabulary.text import valid_text

_OF_DEVICE: Final = (("flops", "count"), ("bytes", "bytes"), ("device_time", "nanoseconds"))
"""What each sample of a device has; the last is what readers show at first."""
_OF_HOST: Final = (("host_time", "nanoseconds"),)
_MAX_VALUE: Final = 2**63 - 1


def of_device(document: Mapping[str, Any]) -> bytes | None:
    """The device time of a snapshot by line; None before its first profiler window."""
    found = document.get("device_time")
    return profile(found["by_line"]) if found else None


def of_host(document: Mapping[str, Any]) -> bytes | None:
    """The main thread's sampled time of a snapshot; None before its first sample."""
    rows = host_time(document)
    return profile(rows, _OF_HOST) if rows else None


def profile(rows: Sequence[Row], kinds: Sequence[tuple[str, str]] = _OF_DEVICE) -> bytes:
    """A tree of `device_time` as a compressed ``Profile``: nanoseconds, FLOPs and bytes of each path.

    An operation is a function that is inlined in its line, which `-noinlines` folds into it. The part of automatic
    differentiation is a sample's label (`-tagfocus=backward`). What is not known of FLOPs and bytes is 0 there, as the
    format has no other way to say so.
    """
    message = message_classes("pprof")["Profile"]()
    texts: dict[str, int] = {"": 0}
    numbers: dict[Any, int] = {}

    def text(value: object) -> int:
        return texts.setdefault(valid_text(str(value)), len(texts))

    def function(name: str, file: str) -> int:
        if (name, file) not in numbers:
            numbers[name, file] = len(numbers) + 1
            message.function.add(id=numbers[name, file], name=text(name), filename=text(file))
        return numbers[name, file]

    def location(row: Row, operation: str = "") -> int:
        name, file, line = row["name"] or name_of(row), row["file"], row["line"]
        place = name, file, line, operation
        if place not in numbers:
            inlined = [(function(operation, ""), 0)] if operation else []
            lines = [{"function_id": one, "line": at} for one, at in (*inlined, (function(name, file), line))]
            numbers[place] = len(numbers) + 1
            message.location.add(id=numbers[place], line=lines)
        return numbers[place]

    for name, unit in kinds:
        message.sample_type.add(type=text(name), unit=text(unit))
    for path in leaves(rows):
        part = part_of(path)
        *callers, line = path if part is None else path[:-1]
        above = [location(row) for row in reversed(callers)]
        label = [] if part is None else [{"key": text("part"), "str": text(part)}]
        for operation, values in _values_within(path[-1]):
            places = [location(line, operation), *above]
            message.sample.add(value=values[-len(kinds) :], label=label, location_id=places)
    message.string_table.extend(value.encode() for value in texts)
    return gzip.compress(message.SerializeToString(), mtime=0)


def _values_within(leaf: Row) -> Iterator[tuple[str, list[int]]]:
    """The values of a leaf's operations by name, and under no name what is left; they add up to the leaf's own."""
    left = _values(leaf)
    for operation in operations_of(leaf):
        values = list(map(min, _values(operation), left))  # rounded, they may be more than the leaf's
        left = list(map(sub, left, values))
        yield operation["name"], values
    yield "", left


def _values(row: Row) -> list[int]:
    amounts = (row.get("flops") or 0.0, row.get("bytes") or 0.0, 1e9 * row["seconds"])
    return [min(round(amount), _MAX_VALUE) for amount in amounts]
