"""Reads the statistics of events fast: their bytes repeat, so each is decoded once.

The order and number of an event's statistics repeat too. A tuple of codes, one for each statistic, is therefore the key
by which an event is classified: looking it up costs a third of decoding the statistics one by one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from google.protobuf.message import DecodeError

from jaxobs.proto.xspace import StatMessage
from jaxobs.trace.errors import TraceError
from jaxobs.trace.planes.metadata import PlaneMetadata, Value

MOST_KNOWN: Final = 200_000
"""Most statistics kept by their bytes. Where there are more they do not repeat, and are decoded when needed."""

_UNIQUE: Final = frozenset(
    [
        "_p",
        "_c",
        "_pid",
        "correlation_id",
        "device_offset_ps",
        "device_duration_ps",
        "cuda_graph_node_id",
        "addr",
        "scope_range_id",
    ]
)
"""Statistics whose value differs from event to event."""


class EventStats:
    """The codes of the statistics in one plane.

    `distinct` names those that tell events apart: each of their values has its own code. All others share one code, and
    those whose value is unique to an event have none.
    """

    def __init__(self, metadata: PlaneMetadata, distinct: Collection[str]) -> None:
        self._metadata = metadata
        self._distinct = distinct
        self._known: dict[bytes, int] = {}
        self.code = self._known.get

    def learn(self, stats: list[bytes]) -> tuple[int | None, ...]:
        """The key of these statistics, with new codes for those that have none yet."""
        for raw in stats:
            if raw in self._known:
                continue
            name = self._name(raw)
            if name in self._distinct:  # above the limit too, or events would be taken for each other
                self._known[bytes(raw)] = len(self._known) + 1
            elif name not in _UNIQUE and len(self._known) < MOST_KNOWN:
                self._known[bytes(raw)] = 0
        return tuple(map(self.code, stats))

    def read(self, stats: list[bytes]) -> dict[str, Value]:
        """All statistics of an event, by name."""
        return self._metadata.stats_of(map(_decode, stats))

    def position(self, stats: list[bytes], name: str) -> int:
        """The index of the statistic of this name; -1 where it is absent."""
        return next((at for at, raw in enumerate(stats) if self._name(raw) == name), -1)

    def _name(self, raw: bytes) -> str | None:
        return self._metadata.stat_names.get(_decode(raw).metadata_id)


def payload(raw: bytes) -> bytes:
    """The encoded value of a statistic, which is equal for equal values, whatever the statistic's name."""
    at = 1  # after the key of the metadata id, which comes first
    while at < len(raw) and raw[at] >= 0x80:
        at += 1
    return raw[at + 1 :]


def _decode(raw: bytes) -> Any:
    try:
        return StatMessage.FromString(raw)
    except DecodeError as error:
        raise TraceError(f"an event's statistic is corrupted ({error}); record the trace again") from None
