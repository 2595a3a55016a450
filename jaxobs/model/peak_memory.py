"""What one run of an executable holds of a device's memory, by XLA's buffer assignment, as plain data.

A run holds its arguments, its outputs and one block for temporaries from its beginning to its end. The block is as large
as the moment needs at which most temporaries live (the peak), and what the packing of the others wastes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from jaxobs.model.events import memory_need

ARGUMENT, OUTPUT, TEMPORARY = "argument", "output", "temporary"
"""Kinds of buffers. An output that takes over a donated argument is that argument."""

NOT_GIVEN: Final = (
    "the backend gave no buffer assignment at the compile, and no profiler window has had one yet"
)

SUMS: Final = (ARGUMENT, OUTPUT, TEMPORARY, "alias")
"""What XLA's memory analysis sums as well."""


class Buffer(NamedTuple):
    """One buffer, and what made the value in it. Texts are empty for what the compiler did not record."""

    bytes: int
    kind: str
    dtype: str
    """Element type and dimensions, as XLA keeps them: a fusion may have turned them."""
    shape: tuple[int, ...]
    operation: str = ""
    """The primitive (`dot_general`), or the opcode; for an argument its name (`params['w']`)."""
    scope: str = ""
    source: str = ""
    """``file:line`` of the user's code."""
    function: str = ""
    """The function that has this line."""
    autodiff: str = ""
    """The part of automatic differentiation: FORWARD, BACKWARD, REMATERIALIZED or, for none, empty."""
    turns: int = 1
    """Turns of the loop that fills the buffer, a part in each; 1 where none does."""


class Place(NamedTuple):
    """The temporaries at the peak that one line makes in one named scope."""

    source: str
    scope: str
    bytes: int
    buffers: int


class Saving(NamedTuple):
    """What a change to the program would free: about so many bytes, and at least `least`.

    Where that is None, `bytes` is the most that it could free, or about what it frees: the sentence says which.
    """

    change: str
    bytes: int
    least: int | None
    sentence: str


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """The memory of one run on one device, in bytes."""

    sums: Mapping[str, int]
    """By SUMS; `alias` is what outputs share with donated arguments."""
    live: int | None
    """Temporaries that live at the peak; None where the compiler does not tell which do."""
    live_reason: str = ""
    buffers: tuple[Buffer, ...] = ()
    """Arguments, outputs, and temporaries that live at the peak; the largest first, KEPT at most."""
    places: tuple[Place, ...] = ()
    """Where temporaries that live at the peak come from, the largest first; KEPT at most."""
    savings: tuple[Saving, ...] = ()

    @property
    def needed(self) -> int:
        """Bytes that a run holds: arguments, outputs that share none of them, and the block of temporaries."""
        return memory_need(self.sums)

    def differs(self, told: Mapping[str, int]) -> str:
        """Why these sums are not those that XLA told; empty where they are the same."""
        wrong = [kind for kind in SUMS if self.sums[kind] != told.get(kind)]
        found = (f"{kind} {self.sums[kind]} for {told.get(kind)} bytes" for kind in wrong)
        return f"the buffers do not add up to XLA's own sums: {', '.join(found)}" if wrong else ""

    def to_dict(self, most: int) -> dict[str, Any]:
        """Plain data, ready for JSON, with at most so many buffers and as many places."""
        return {
            "needed_bytes": self.needed,
            **{f"{kind}_bytes": self.sums[kind] for kind in SUMS},
            "live_bytes": self.live,
            "live_bytes_reason": self.live_reason or None,
            "buffers": [each._asdict() for each in self.buffers[:most]],
            "places": [each._asdict() for each in self.places[:most]],
            "savings": [each._asdict() for each in self.savings],
        }


KEPT: Final = 100
"""Most buffers, and most places, that are kept of an executable: places are sums of all its buffers, so what is
left out of the one list is in the other."""


def places_of(buffers: Iterable[Buffer]) -> tuple[Place, ...]:
    """The temporaries among the buffers by line and scope, the largest first."""
    found: dict[tuple[str, str], list[int]] = {}
    for buffer in buffers:
        if buffer.kind == TEMPORARY:
            found.setdefault((buffer.source, buffer.scope), []).append(buffer.bytes)
    places = [Place(*place, sum(sizes), len(sizes)) for place, sizes in found.items()]
    return tuple(sorted(places, key=lambda place: -place.bytes)[:KEPT])
