"""What differs between two runs and may be why one of them is slower, and the figures that follow from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from jaxobs.model.snapshot import Document, all_compile_seconds, compile_seconds, executable_size
from jaxobs.report.noise import shift
from jaxobs.report.record import Record
from jaxobs.vocabulary.text import EAGER
from jaxobs.vocabulary.units import (
    amount,
    byte_size,
    digits,
    duration,
    percent,
    rough,
    rough_percent,
    signed_percent,
    times,
)

RARE: Final = ("compile", "checkpoint")
"""Components that occur in few steps. Step time is compared without them."""


SAME_WORK: Final = 0.01
"""Share by which FLOPs may differ and still count as equal: another version of XLA may rewrite a reduction."""


SAME_TYPES: Final = 0.05
"""Share of the FLOPs that must change their type to be a difference."""


SMALL_FUNCTION: Final = 0.05
"""Share of all FLOPs below which a function is left out."""


IN_PROPORTION: Final = 0.1
"""Share by which the growth of FLOPs may differ from that of the batch and still be explained by it: some FLOPs, such
as an optimiser's, do not grow with the batch."""


LONGER_WAIT: Final = 0.05
"""Share of a step by which the wait for input must change to be a difference. In two runs of one program, one of them on
a busy machine, it differed by 2.5 % (measured), as less of the loader's work was hidden."""


OTHER_LOAD: Final = 0.1
"""Share of the host's processors by which the load of other processes must differ to be a difference: the agent's own
profiling, cron and the like stay below it."""


THROTTLED: Final = 0.05
"""Processors by which what a container's limit holds back must differ to be a difference."""


SAME_FIGURE: Final = 0.05
"""Share by which a figure with one value in each run may differ and still be left out."""


FIGURES_SHOWN: Final = 12


NOT_SPEED: Final = frozenset({
    "run", "summary_directory", "run_directory", "run_interval", "file_sd_directory", "jsonl_directory",
    "metrics_token_file",
    "metrics_tls_certificate", "metrics_tls_key", "metrics_hosts", "out_of_memory_directory", "profile_directory",
    "cache_directory", "tensorboard_directory", "shutdown_timeout",
})  # fmt: skip
"""Settings that do not affect speed, as they say where something is written or served."""


_Figure = tuple[str, float | None, float | None, Callable[[float], str]]
"""Its title, its value in both runs, and how it is written."""


class Cause(StrEnum):
    """Why a run may be slower or faster than another."""

    MODEL = "model"
    BATCH = "batch"
    PRECISION = "precision"
    INPUT = "input"
    RECOMPILE = "recompile"
    LOAD = "load"
    SETTINGS = "settings"
    VERSIONS = "versions"
    DEVICES = "devices"


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of both runs as text, and how much it changed."""

    what: str
    before: str
    after: str
    change: str = ""
    verdict: str = ""
    """`slower`, `within the noise` and the like; of a difference its cause."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between the runs and may be why one is slower. `size` is 0 if it is no figure."""

    cause: Cause
    row: Row
    size: float = 0.0


def differences(loops: Sequence[str], before: Record, after: Record) -> list[Difference]:
    """What differs between the runs, the largest first; what is no figure comes last."""
    found = [
        *chain.from_iterable(_batch(loop, before, after) for loop in loops),
        *chain.from_iterable(_input_wait(loop, before, after) for loop in loops),
        *_work(_batch_growth(loops, before, after), before, after),
        *_recompiles(before, after),
        *_load(before, after),
        *_surroundings(before, after),
    ]
    return sorted(found, key=lambda difference: -difference.size)


def _batch(loop: str, before: Record, after: Record) -> Iterator[Difference]:
    """Another number of tokens or examples in a step."""
    for word, old, new in _examples(loop, before, after):
        if not _is_near(new / old, SAME_WORK):
            yield _difference(Cause.BATCH, f"{word} a step of {loop}", old, new, digits)
            return


def _examples(loop: str, before: Record, after: Record) -> Iterator[tuple[str, float, float]]:
    """`tokens` and `examples` with their numbers in one step of both runs, as far as both scripts gave them."""
    one, other = (record.part("snapshot", "loops", loop) for record in (before, after))
    if one.get("steps") and other.get("steps"):
        for word in ("tokens", "examples"):
            if one.get(word) and other.get(word):
                yield word, one[word] / one["steps"], other[word] / other["steps"]


def _batch_growth(loops: Sequence[str], before: Record, after: Record) -> float:
    """The factor by which a step of the longest loop has more tokens, or else examples; 1 if the script did not say."""
    return next((new / old for loop in loops[:1] for _, old, new in _examples(loop, before, after)), 1.0)


def _input_wait(loop: str, before: Record, after: Record) -> Iterator[Difference]:
    """The wait for input, which is timed in each step.

    Other components rest on profiler windows: what is `unknown` in one run may be `compute` in the other although nothing
    has changed.
    """
    columns = [record.part("windows", loop) for record in (before, after)]
    one, other = (
        [
            spent / steps
            for steps, spent in zip(each.get("steps", ()), each.get("component/input", ()), strict=False)
            if steps and spent is not None
        ]
        for each in columns
    )
    steps = [step_seconds(each) for each in columns]
    change = shift(one, other)
    if change is not None and all(steps) and change.beyond(LONGER_WAIT * max(map(median, steps))):
        title = f"wait for input, a step of {loop}"
        yield _difference(Cause.INPUT, title, median(one), median(other), duration)


def _work(batch: float, before: Record, after: Record) -> Iterator[Difference]:
    """FLOPs of a run of each large function, if the batch does not explain their growth, and their element types."""
    one, other = (_largest_by_function(record) for record in (before, after))
    for name in sorted(one.keys() & other.keys()):
        old, new = (each[name].get("cost") or {} for each in (one, other))
        if old.get("flops") and new.get("flops"):
            growth = new["flops"] / old["flops"]
            if not _is_near(growth, SAME_WORK) and (
                batch == 1.0 or not _is_near(growth / batch, IN_PROPORTION)
            ):
                title = f"FLOPs a run of {name}"
                yield _difference(Cause.MODEL, title, old["flops"], new["flops"], amount)
        yield from _types(name, old, new)


def _types(name: str, old: Document, new: Document) -> Iterator[Difference]:
    """The element types of matrix products, else those that they run as, else their precision, if they differ."""
    for what, key in (
        ("types of the products in", "matrix_flops_by_type"),
        ("types run as in", "executed_matrix_flops_by_type"),
        ("precision of products in", "float32_flops_by_precision"),
    ):
        shares, now = (_shares(cost.get(key) or {}) for cost in (old, new))
        moved = {word: now.get(word, 0.0) - shares.get(word, 0.0) for word in shares.keys() | now.keys()}
        if shares and now and max(map(abs, moved.values())) >= SAME_TYPES:
            yield Difference(
                Cause.PRECISION, Row(f"{what} {name}", _listed(shares), _listed(now), "", "precision")
            )
            return


def _shares(flops: Mapping[str, float]) -> dict[str, float]:
    total = sum(flops.values())
    return {name: value / total for name, value in flops.items()} if total > 0 else {}


def _listed(shares: Mapping[str, float]) -> str:
    ranked = sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))
    named = [(name, share) for name, share in ranked if share >= SAME_TYPES]
    if len(named) == 1:
        return named[0][0]
    return " and ".join(f"{name} ({rough_percent(share)})" for name, share in named)


def _recompiles(before: Record, after: Record) -> Iterator[Difference]:
    """Functions that were recompiled more or less often, with the dearest reason."""
    one, other = (record.part("snapshot", "functions") for record in (before, after))
    for name in sorted(one.keys() | other.keys()):
        functions = [each.get(name) or {} for each in (one, other)]
        old, new = (int(function.get("recompilation_count") or 0) for function in functions)
        if old == new or name == EAGER:  # many primitives share that name, each of which is compiled once
            continue
        again = functions[new > old].get("recompilations") or []
        often, now = (times(number) if number else "never" for number in (old, new))
        row = Row(f"{name} compiled again", often, now, _why_again(again), Cause.RECOMPILE)
        yield Difference(Cause.RECOMPILE, row, abs(math.log((1 + new) / (1 + old))))


def _why_again(again: Sequence[Document]) -> str:
    """What changed in the dearest recompilation, and what all of them took."""
    if not again:
        return "for a reason that is not known"
    dearest = max(again, key=lambda row: float(row.get("seconds") or 0.0))
    cause = str(dearest.get("cause")).replace("_", " ")
    what = f"the {cause} of {dearest['argument']}" if dearest.get("argument") else f"cause {cause}"
    spent = duration(sum(float(row.get("seconds") or 0.0) for row in again))
    return f"{'mostly ' if len(again) > 1 else ''}for {what}, {spent}"


def _load(before: Record, after: Record) -> Iterator[Difference]:
    """The load by other processes on the host, and what the container's limit held back."""
    one, other = (record.part("host") for record in (before, after))
    cpus = max(one.get("cpus") or 0, other.get("cpus") or 0)
    for key, what, least in (
        ("other_cpus", f"processors of {digits(cpus)} that others kept busy", OTHER_LOAD * cpus),
        ("throttled_cpus", "processors that the container's limit held back", THROTTLED),
    ):
        old, new = one.get(key), other.get(key)
        if old is not None and new is not None and least and abs(new - old) >= least:
            yield _difference(Cause.LOAD, what, old, new, rough)


def _surroundings(before: Record, after: Record) -> Iterator[Difference]:
    """Settings of jaxobs, variables that XLA and the libraries below it read, versions, devices and processes."""
    for part, cause in (
        ("settings", Cause.SETTINGS),
        ("environment", Cause.SETTINGS),
        ("versions", Cause.VERSIONS),
    ):
        one, other = before.part(part), after.part(part)
        for name in sorted(one.keys() | other.keys()):
            if one.get(name) != other.get(name) and name not in NOT_SPEED:
                old, new = (
                    "not there" if each is None else f"`{each}`" for each in (one.get(name), other.get(name))
                )
                yield Difference(cause, Row(name, old, new, "", cause))
    kinds = [
        Counter(str(device.get("kind")) for device in record.entries("devices")) for record in (before, after)
    ]
    listed = (", ".join(f"{n} × {kind}" for kind, n in sorted(each.items())) or "none" for each in kinds)
    processes, hosts = (
        [str(record.part("snapshot", "process").get(key) or "") for record in (before, after)]
        for key in ("process_count", "host_name")
    )
    told = [("devices", *listed), ("processes", *processes)]
    told += [("host", *hosts)] if "cpu" in kinds[0] | kinds[1] else []  # there the host is the device
    for what, old, new in told:
        if old and new and old != new:
            yield Difference(Cause.DEVICES, Row(what, old, new, "", Cause.DEVICES))


def other_figures(loops: Sequence[str], before: Record, after: Record) -> list[Row]:
    """Figures that follow from the differences, one value of each run: those that differ most."""
    found = [
        (abs(math.log(new / old)), Row(title, write(old), write(new), growth(old, new)))
        for title, old, new, write in _figures(loops, before, after)
        if old and new and not _is_near(new / old, SAME_FIGURE)
    ]
    return [row for _, row in sorted(found, key=lambda pair: -pair[0])[:FIGURES_SHOWN]]


def _figures(loops: Sequence[str], before: Record, after: Record) -> Iterator[_Figure]:
    for loop in loops:
        one, other = (record.part("snapshot", "loops", loop) for record in (before, after))
        for word in ("examples", "tokens"):
            yield f"{word}/s of {loop}", _mean_rate(one, word), _mean_rate(other, word), digits
        for word in ("mfu", "hfu"):
            yield f"{word.upper()} of {loop}", one.get(word), other.get(word), percent
    one, other = (record.part("snapshot", "process") for record in (before, after))
    yield "goodput", one.get("goodput"), other.get("goodput"), percent
    one, other = (_largest_by_function(record) for record in (before, after))
    for name in sorted(one.keys() & other.keys()):
        yield (
            f"a run of {name}",
            one[name].get("seconds_per_run"),
            other[name].get("seconds_per_run"),
            duration,
        )
    yield "compiling", all_compile_seconds(before.snapshot), all_compile_seconds(after.snapshot), duration
    one, other = (record.part("snapshot", "functions") for record in (before, after))
    for name in sorted(one.keys() & other.keys()):
        yield f"compiling {name}", compile_seconds(one[name]), compile_seconds(other[name]), duration
    one, other = (record.part("snapshot", "process", "memory") for record in (before, after))
    yield "process memory, at most", one.get("peak_bytes"), other.get("peak_bytes"), byte_size
    yield "fullest device, at most", _device_peak(before), _device_peak(after), byte_size


def _mean_rate(loop: Document, word: str) -> float | None:
    """The rate over the whole run; None if its amount was not counted."""
    amount_of, wall = loop.get(word), loop.get("wall_seconds")
    return amount_of / wall if amount_of and wall else None


def _device_peak(record: Record) -> float | None:
    peaks = [(device.get("memory") or {}).get("peak_bytes") for device in record.entries("devices")]
    return max((peak for peak in peaks if peak is not None), default=None)


def _largest_by_function(record: Record) -> dict[str, Document]:
    """By function, its executable with the most device time, or else with the most FLOPs; small ones are left out."""
    found: dict[str, Document] = {}
    for entry in sorted(record.entries("executables"), key=executable_size, reverse=True):
        found.setdefault(entry["function"], entry)
    flops = {name: float((entry.get("cost") or {}).get("flops") or 0.0) for name, entry in found.items()}
    work = {name: each * float(found[name].get("runs") or 1.0) for name, each in flops.items()}
    return {name: found[name] for name, each in work.items() if each >= SMALL_FUNCTION * sum(work.values())}


def _difference(cause: Cause, what: str, old: float, new: float, write: Callable[[float], str]) -> Difference:
    size = abs(math.log(new / old)) if old > 0 and new > 0 else math.inf
    return Difference(cause, Row(what, write(old), write(new), growth(old, new), cause), size)


def step_seconds(columns: Mapping[str, Any]) -> list[float]:
    """Seconds of a step in each stretch, without the components that occur in few steps."""
    found = []
    rare = [columns.get(f"component/{name}") or [] for name in RARE]
    pairs = zip(columns.get("steps", ()), columns.get("seconds", ()), strict=False)
    for index, (steps, wall) in enumerate(pairs):
        if steps and wall is not None:
            own = wall - sum(column[index] or 0.0 for column in rare if index < len(column))
            found += [own / steps] if own > 0 else []
    return found


def median(values: Sequence[float]) -> float:
    """The median of at least one value. Not by `statistics`: a notebook's own module may have that name."""
    ordered = sorted(values)
    return (ordered[len(ordered) // 2] + ordered[(len(ordered) - 1) // 2]) / 2


def growth(old: float, new: float) -> str:
    """The relative change in words; empty if one of both is 0."""
    return signed_percent(new / old - 1) if old and new else ""


def _is_near(growth: float, margin: float) -> bool:
    return 1 / (1 + margin) <= growth <= 1 + margin
