"""Device time by call path in the format of pprof, which `go tool pprof`, Pyroscope and Speedscope read.

Fields are those of google/pprof, ``proto/profile.proto``.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Any, Final

from jaxobs.proto.messages import message_classes
from jaxobs.report.flame_graph import leaves, name_of, part_of
from jaxobs.report.tables import Row
from jaxobs.vocabulary.text import valid_text

_VALUES: Final = (("flops", "count"), ("bytes", "bytes"), ("device_time", "nanoseconds"))
"""What each sample has; the last is what readers show at first."""
_MAX_VALUE: Final = 2**63 - 1


def profile(rows: Sequence[Row]) -> bytes:
    """A tree of `device_time` as a compressed ``Profile``: nanoseconds, FLOPs and bytes of each path.

    The part of automatic differentiation is a sample's label (`-tagfocus=backward`).
    What is not known of FLOPs and bytes is 0 there, as the format has no other way to say so.
    """
    message = message_classes("pprof")["Profile"]()
    texts: dict[str, int] = {"": 0}
    numbers: dict[Any, int] = {}

    def text(value: object) -> int:
        return texts.setdefault(valid_text(str(value)), len(texts))

    def location(row: Row) -> int:
        function, place = (row["name"], row["file"]), (row["name"], row["file"], row["line"])
        if function not in numbers:
            numbers[function] = len(numbers) + 1
            name, file = text(row["name"] or name_of(row)), text(row["file"])
            message.function.add(id=numbers[function], name=name, filename=file)
        if place not in numbers:
            numbers[place] = len(numbers) + 1
            message.location.add(id=numbers[place]).line.add(function_id=numbers[function], line=row["line"])
        return numbers[place]

    for name, unit in _VALUES:
        message.sample_type.add(type=text(name), unit=text(unit))
    for path in leaves(rows):
        leaf = path[-1]
        amounts = (leaf["flops"] or 0.0, leaf["bytes"] or 0.0, 1e9 * leaf["seconds"])
        sample = message.sample.add(value=[min(round(amount), _MAX_VALUE) for amount in amounts])
        if (part := part_of(path)) is not None:
            sample.label.add(key=text("part"), str=text(part))
        calls = path if part is None else path[:-1]
        sample.location_id.extend(location(row) for row in reversed(calls))
    message.string_table.extend(value.encode() for value in texts)
    return gzip.compress(message.SerializeToString(), mtime=0)
