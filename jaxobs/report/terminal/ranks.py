"""The table of ranks, and which of them lags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jaxobs.model.snapshot import Document
from jaxobs.report.columns import Column, Row, computed, figure, text
from jaxobs.report.page.view import View
from jaxobs.vocabulary.units import count, duration, percent, rough_percent

LAGS: Final = 0.1
"""Least share of all ranks' time that a lagging rank costs: the threshold of JaxRankLags in deploy/prometheus."""

LAGGING: Final = "◀ lags"
GONE: Final = "✗"
"""Marks a rank of which nothing new is known."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of one rank now. `problem` says in one line why nothing newer is known."""

    address: str
    document: Document
    problem: str | None = None


def rank_rows(ranks: Sequence[Observed], loop: str | None = None) -> list[dict[str, Any]]:
    """A row for each rank, in their order, with the figures of `loop`, or of its main loop where it has none such."""
    rows = [_row(rank, loop) for rank in ranks]
    for run in {row["run"] for row in rows}:
        alike = [row for row in rows if row["run"] == run and row["shares"]]
        for row, lag in zip(alike, lags([row["shares"] for row in alike]), strict=True):
            row["lag"] = lag
        slowest = max(alike, key=lambda row: row["lag"], default=None)
        if slowest is not None and slowest["lag"] > LAGS:
            slowest["lags"] = True
    return rows


def lags(shares: Sequence[Mapping[str, float]]) -> list[float]:
    """The share of time that each rank of one run costs the others; 0 or less where it costs them nothing.

    In collectives all ranks wait for the slowest, which therefore waits least. Where communication is not known, it is
    the one that spends more than the mean on its input and its host (docs/how_it_works/bottlenecks.md).
    """
    if len(shares) < 2:
        return [0.0] * len(shares)
    known = [share["communication"] for share in shares if "communication" in share]
    usual = sum(known) / len(known) if known else 0.0
    own = [share.get("input", 0.0) + share.get("host", 0.0) for share in shares]
    return [
        max(usual - share.get("communication", usual), spent - sum(own) / len(own))
        for share, spent in zip(shares, own, strict=True)
    ]


def _shares(loop: Mapping[str, Any]) -> dict[str, float]:
    """The shares of a loop's time, without those of communication where no profiler window has shown any yet."""
    shares = dict((loop.get("bottleneck") or {}).get("shares") or {})
    if not (loop.get("profile") or shares.get("communication")):
        shares.pop("communication", None)
    return shares


def _row(rank: Observed, wanted_loop: str | None) -> dict[str, Any]:
    process = rank.document.get("process") or {}
    view = View(rank.document, wanted_loop=wanted_loop)
    loop = view.loops[view.loop] if view.loop is not None else {}
    verdict = loop.get("bottleneck") or {}
    return {
        "rank": process.get("process_index"), "run": process.get("run") or process.get("service_name"),
        "host": process.get("host_name"), "address": rank.address, "problem": rank.problem,
        "steps": loop.get("steps"), "step_seconds": loop.get("step_seconds"),
        "mfu": loop.get("mfu"),
        "label": verdict.get("label"), "shares": _shares(loop), "lag": 0.0, "lags": False,
    }  # fmt: skip


def columns(rows: Sequence[Row]) -> Iterator[Column]:
    """The columns of the table; those of run and host only where they differ."""
    runs, hosts = {row["run"] for row in rows if row["run"]}, {row["host"] for row in rows if row["host"]}
    yield Column("rank", _name, text=True, value=lambda row: row["rank"])
    if len(runs) > 1:
        yield text("run", "run")
    if len(hosts) > 1:
        yield text("host", "host")
    yield figure("steps", "steps", count)
    yield figure("step time", "step_seconds", duration)
    yield figure("MFU", "mfu", percent)
    yield _share("waits", ("communication",))
    yield _share("own", ("input", "host"))
    yield Column(
        "costs", lambda row: rough_percent(row["lag"]) if row["lags"] else None, value=lambda row: row["lag"]
    )
    yield text("limited by", "label")
    yield text("", "problem")


def _name(row: Row) -> str:
    known = row["address"] if row["rank"] is None else str(row["rank"])
    return f"{known} {GONE}" if row["problem"] else f"{known} {LAGGING}" if row["lags"] else known


def _share(title: str, components: tuple[str, ...]) -> Column:
    def value(row: Row) -> float | None:
        known = [row["shares"][name] for name in components if name in row["shares"]]
        return sum(known) if known else None

    return computed(title, value, rough_percent)
