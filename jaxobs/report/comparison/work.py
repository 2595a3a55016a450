"""Compares the work of the program in both runs: FLOPs, their element types, and the examples they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from jaxobs.report.comparison.finding import Cause, Effect, Finding
from jaxobs.report.record import Record
from jaxobs.vocabulary.units import amount, digits, rough_percent

SAME_WORK: Final = 0.01
"""Share by which FLOPs may differ and still count as equal: another version of XLA may rewrite a reduction."""

SAME_SHARE: Final = 0.05
"""Least share of the FLOPs that must change their type to be a finding."""

IN_PROPORTION: Final = 0.1
"""Share by which the growth of FLOPs may differ from that of the batch and still be explained by it: some FLOPs, such
as an optimiser's, do not grow with the batch."""

SMALL_FUNCTION: Final = 0.05
"""Share of all FLOPs below which a function explains nothing and is left out."""


@dataclass(slots=True)
class Work:
    """The work of one run of a function on one device, the mean over its runs."""

    flops: float = 0.0
    output_bytes: float = 0.0
    runs: float = 0.0
    by_type: dict[str, float] = field(default_factory=dict)
    executed_by_type: dict[str, float] = field(default_factory=dict)
    precision: dict[str, float] = field(default_factory=dict)


def work_by_function(record: Record) -> dict[str, Work]:
    """The work of each function for which it is known. An executable whose runs are not counted counts as one run."""
    found: dict[str, Work] = {}
    for entry in record.entries("executables"):
        cost = entry.get("cost")
        if not cost:
            continue
        work, runs = found.setdefault(entry["function"], Work()), float(entry.get("runs") or 1.0)
        work.runs += runs
        work.flops += runs * float(cost.get("flops") or 0.0)
        work.output_bytes += runs * float((entry.get("memory") or {}).get("output") or 0.0)
        for kept, key in (
            (work.by_type, "matrix_flops_by_type"),
            (work.executed_by_type, "executed_matrix_flops_by_type"),
            (work.precision, "float32_flops_by_precision"),
        ):
            for name, flops in (cost.get(key) or {}).items():
                kept[name] = kept.get(name, 0.0) + runs * flops
    for work in found.values():
        work.flops, work.output_bytes = work.flops / work.runs, work.output_bytes / work.runs
    total = sum(work.flops * work.runs for work in found.values())
    return {
        name: work for name, work in found.items() if work.flops * work.runs >= SMALL_FUNCTION * total > 0
    }


def _examples(loop: str, before: Record, after: Record) -> Iterator[tuple[str, float, float]]:
    """`examples` and `tokens` with their numbers in one step of both runs, as far as both scripts gave them."""
    one, other = (record.part("snapshot", "loops", loop) for record in (before, after))
    if one.get("steps") and other.get("steps"):
        for word in ("examples", "tokens"):
            if one.get(word) and other.get(word):
                yield word, one[word] / one["steps"], other[word] / other["steps"]


def batch_findings(loop: str, before: Record, after: Record) -> Iterator[Finding]:
    """A finding where a step has another number of examples or tokens."""
    for word, old, new in _examples(loop, before, after):
        if not _is_near(new / old, SAME_WORK):
            words = f"a step of `{loop}` takes {digits(new)} {word} instead of {digits(old)}"
            yield Finding(Cause.BATCH, loop, Effect.of(new > old), words)
            return


def work_findings(loop: str, before: Record, after: Record) -> Iterator[Finding]:
    """Functions that do more or less work for the same examples, or work in other element types."""
    one, other = work_by_function(before), work_by_function(after)
    batch = _batch_growth(loop, before, after)
    for name in sorted(one.keys() & other.keys()):
        old, new = one[name], other[name]
        yield from _amount(name, old, new, batch)
        yield from _types(name, old, new)


def _batch_growth(loop: str, before: Record, after: Record) -> float | None:
    """The factor by which a step has more tokens, or else examples; None where the script did not say."""
    grown = {word: new / old for word, old, new in _examples(loop, before, after)}
    return grown.get("tokens", grown.get("examples"))


def _amount(name: str, old: Work, new: Work, batch: float | None) -> Iterator[Finding]:
    if not old.flops or not new.flops or _is_near(new.flops / old.flops, SAME_WORK):
        return
    growth = new.flops / old.flops
    figures = f"{amount(new.flops, 'FLOP')} a run instead of {amount(old.flops, 'FLOP')}, {digits(growth)} times as many"
    if batch is not None and not _is_near(batch, SAME_WORK):
        if _is_near(growth / batch, IN_PROPORTION):
            return  # explained by the batch, which is a finding of its own
        figures += f", for {digits(batch)} times as many examples"
    elif batch is None and old.output_bytes and _is_near(new.output_bytes / old.output_bytes, SAME_WORK):
        because = (
            "a larger batch, or longer sequences" if growth > 1 else "a smaller batch, or shorter sequences"
        )
        words = f"`{name}` does {figures}, and returns as many bytes as before: {because}"
        yield Finding(Cause.BATCH, name, Effect.of(growth > 1), words)
        return
    size = "larger" if growth / (batch or 1.0) > 1 else "smaller"
    yield Finding(Cause.MODEL, name, Effect.of(growth > 1), f"`{name}` is a {size} computation: {figures}")


def _types(name: str, old: Work, new: Work) -> Iterator[Finding]:
    """A finding where matrix products differ in their element types, else in those they run as, else in precision.

    Its effect is open, as it depends on the device: a processor without bfloat16 was 26 % faster in float32 (measured).
    """
    for what, one, other in (
        ("has its matrix products in", old.by_type, new.by_type),
        ("runs its matrix products as", old.executed_by_type, new.executed_by_type),
        ("has its float32 products with precision", old.precision, new.precision),
    ):
        shares, now = _shares(one), _shares(other)
        moved = {word: now.get(word, 0.0) - shares.get(word, 0.0) for word in shares.keys() | now.keys()}
        if not shares or not now or max(map(abs, moved.values())) < SAME_SHARE:
            continue
        words = f"`{name}` {what} {_listed(now)} instead of {_listed(shares)}"
        yield Finding(Cause.PRECISION, name, Effect.OPEN, words)
        return


def _shares(flops: Mapping[str, float]) -> dict[str, float]:
    total = sum(flops.values())
    return {name: value / total for name, value in flops.items()} if total > 0 else {}


def _listed(shares: Mapping[str, float]) -> str:
    ranked = sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))
    named = [(name, share) for name, share in ranked if share >= SAME_SHARE]
    if len(named) == 1:
        return named[0][0]
    return " and ".join(f"{name} ({rough_percent(share)})" for name, share in named)


def _is_near(growth: float, margin: float) -> bool:
    return 1 / (1 + margin) <= growth <= 1 + margin
