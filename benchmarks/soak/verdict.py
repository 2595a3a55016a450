"""What must hold at the end: nothing grew, and every event and span is in one count."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil

MOST_MIB = 2.0
"""By which the agent may grow between the quarters, and the observed job more than the plain one. The plain job, which
has nothing of ours, grew by 0.96 to 4.07 MiB in four runs of 2.5 to 30 minutes: less cannot be told from its noise."""

LEAST_MINUTES = 16.0
"""Of a run whose memory is judged. The agent's buffers are full after some 4 minutes (31 MiB at its start, 57 then, 59
after 30), which must be over before the second quarter."""


MEBIBYTE = 2**20


@dataclass
class Held:
    """What one process held, sample by sample: bytes that it allocated, descriptors, threads."""

    process: psutil.Process
    own_bytes: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)

    def sample(self) -> None:
        """Take one of each."""
        self.own_bytes.append(anonymous_bytes(self.process.pid))
        self.descriptors.append(self.process.num_fds())
        self.threads.append(self.process.num_threads())

    def samples(self) -> dict[str, list[int]]:
        """All of them, by name."""
        return {"own_bytes": self.own_bytes, "descriptors": self.descriptors, "threads": self.threads}

    def __str__(self) -> str:
        return (
            f"{self.own_bytes[-1] / MEBIBYTE:.1f} MiB, {self.descriptors[-1]} descriptors, "
            f"{self.threads[-1]} threads"
        )


def anonymous_bytes(pid: int) -> int:
    """Resident memory that the process allocated itself.

    Not what is its alone (`uss`): pages of a library that it maps become its alone when another program that maps them
    ends. When a test suite beside them ended, that was 2 MiB in the plain job and 5 in the observed one. Raises
    LookupError where the process is gone.
    """
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    raise LookupError(f"process {pid} has no memory, or this kernel does not say how much (Linux 4.5 does)")


def memory_growth(samples: Sequence[int]) -> float:
    """MiB between the medians of two quarters; the first quarter is left out, in which caches fill."""
    second, last = _quarters(samples)
    return (statistics.median(last) - statistics.median(second)) / MEBIBYTE


def count_growth(samples: Sequence[int]) -> int:
    """Between the fewest of two quarters: what is held for a while only is no growth, what is never let go is."""
    second, last = _quarters(samples)
    return min(last) - min(second)


def _quarters(samples: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    quarter = len(samples) // 4
    return samples[quarter : 2 * quarter], samples[-quarter:]


def figures_of_growth(held: Mapping[str, Held], minutes: float) -> Iterator[tuple[str, float, float]]:
    """Name, growth, and the most that it may be; infinity for what is only shown, as memory is in a short run."""
    most = MOST_MIB if minutes >= LEAST_MINUTES else math.inf
    memory = {name: memory_growth(process.own_bytes) for name, process in held.items()}
    yield "MiB of the plain job", memory["plain"], math.inf
    yield "MiB of the observed job", memory["job"], math.inf
    yield "MiB of the observed job above the plain", memory["job"] - memory["plain"], most
    yield "MiB of the agent", memory["agent"], most
    for name in ("job", "agent"):
        yield f"descriptors of the {name}", count_growth(held[name].descriptors), 0
        yield f"threads of the {name}", count_growth(held[name].threads), 0


def figures_of_counts(folder: Path, delivered: int) -> Iterator[tuple[str, int, str]]:
    """Name, difference, and the figures that it is between. `delivered`: spans that the endpoint has."""
    document = json.loads((folder / "snapshot.json").read_text())
    agent, sources = document["agent"], document["sources"]
    parts = [agent[f"events_{outcome}"] for outcome in ("accepted", "dropped", "refused")]
    emitted = agent["events_emitted"]
    yield "events", emitted - sum(parts), _sum(emitted, parts, "accepted", "dropped", "refused")
    witness, failing = _told(folder, "witness"), _told(folder, "failing")
    for outcome, value in witness["metrics"].items():
        yield f"events {outcome}, in the metrics", int(value) - agent[f"events_{outcome}"], f"{value:,.0f}"
    given = witness["events"] + witness["spans"]
    parts = [failing["events"] + failing["spans"], sources["soak_failing"]["dropped"]]
    yield (
        "the failing exporter's events and spans",
        given - sum(parts),
        _sum(given, parts, "taken", "dropped"),
    )
    parts = [delivered, sources["otel"]["dropped"]]
    yield (
        "spans over OTLP",
        witness["spans"] - sum(parts),
        _sum(witness["spans"], parts, "delivered", "dropped"),
    )
    yield "the witness's", sources["soak_witness"]["dropped"], "dropped by an exporter that never fails"


def _told(folder: Path, name: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return told


def _sum(whole: int, parts: list[int], *names: str) -> str:
    return f"{whole:,} = " + " + ".join(f"{part:,} {name}" for part, name in zip(parts, names, strict=True))
