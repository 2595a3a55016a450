"""What must hold at the end: nothing grew, and every event and span is in one count."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.truths import Figure

if TYPE_CHECKING:
    import psutil

MAX_MIB = 2.0
"""By which the agent may grow between the quarters, and the observed job more than the plain one. The plain job, which
has nothing of ours, grew by 0.96 to 4.07 MiB in four runs of 2.5 to 30 minutes: less cannot be told from its noise."""

MIN_MINUTES = 16.0
"""Of a run whose memory is judged. The agent's buffers are full after some 4 minutes (31 MiB at its start, 57 then, 59
after 30), which must be over before the second quarter."""


MEBIBYTE = 2**20


Held = tuple[int, int, int]
"""What a process holds: bytes that it allocated, descriptors, threads."""


def held_by(process: psutil.Process) -> Held:
    """What it holds now.

    Its memory without the pages of files. Not what is its alone (`uss`): pages of a library that it maps become its
    alone when another program that maps them ends. When a test suite beside them ended, that was 2 MiB in the plain job
    and 5 in the observed one.
    """
    memory = process.memory_info()
    return memory.rss - memory.shared, process.num_fds(), process.num_threads()


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


def figures_of_growth(held: Mapping[str, Sequence[Held]], minutes: float) -> Iterator[Figure]:
    """By how much each grew. Memory is only shown of the jobs by themselves, and in a short run."""
    judged = (-math.inf, MAX_MIB) if minutes >= MIN_MINUTES else None
    note = "" if judged else f"judged in runs of {MIN_MINUTES:g} minutes and more"
    columns = {name: list(zip(*samples, strict=True)) for name, samples in held.items()}
    memory = {name: memory_growth(own_bytes) for name, (own_bytes, _, _) in columns.items()}
    yield Figure("the plain job", memory["plain"], unit="MiB")
    yield Figure("the observed job", memory["job"], unit="MiB")
    above = memory["job"] - memory["plain"]
    yield Figure("the observed job above the plain", above, between=judged, unit="MiB")
    yield Figure("the agent", memory["agent"], between=judged, unit="MiB", note=note)
    for name in ("job", "agent"):
        _, descriptors, threads = columns[name]
        yield Figure(f"descriptors of the {name}", count_growth(descriptors), between=(-math.inf, 0))
        yield Figure(f"threads of the {name}", count_growth(threads), between=(-math.inf, 0))


def figures_of_counts(folder: Path, delivered: int) -> Iterator[Figure]:
    """What was given less what is in one of its counts. `delivered`: spans that the endpoint has."""
    document, witness, failing = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("snapshot", "witness", "failing")
    )
    agent, sources = document["agent"], document["sources"]
    emitted = {outcome: agent[f"events_{outcome}"] for outcome in ("accepted", "dropped", "refused")}
    yield _difference("events", agent["events_emitted"], **emitted)
    for outcome, value in witness["metrics"].items():
        yield _difference(
            f"events {outcome}, in the metrics", int(value), snapshot=agent[f"events_{outcome}"]
        )
    yield _difference(
        "the failing exporter's events and spans", witness["events"] + witness["spans"],
        taken=failing["events"] + failing["spans"], dropped=sources["soak_failing"]["dropped"],
    )  # fmt: skip
    dropped = sources["otel"]["dropped"]
    yield _difference("spans over OTLP", witness["spans"], delivered=delivered, dropped=dropped)
    yield Figure("dropped by an exporter that never fails", sources["soak_witness"]["dropped"], 0)


def _difference(name: str, whole: int, **parts: int) -> Figure:
    said = " + ".join(f"{part:,} {name}" for name, part in parts.items())
    return Figure(name, whole - sum(parts.values()), 0, note=f"{whole:,} = {said}")
