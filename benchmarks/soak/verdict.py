"""What must hold at the end: nothing grew, and every event and span is in one count."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.soak.growth import Held, count_growth, memory_growth

MOST_MIB = 2.0
"""By which the agent may grow between the quarters, and the observed job more than the plain one. The plain job, which
has nothing of ours, grew by 0.96 to 4.07 MiB in four runs of 2.5 to 30 minutes: less cannot be told from its noise."""

LEAST_MINUTES = 16.0
"""Of a run whose memory is judged. The agent's buffers are full after some 4 minutes (31 MiB at its start, 57 then, 59
after 30), which must be over before the second quarter."""


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
