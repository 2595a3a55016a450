"""The figures of a snapshot as one flat dictionary of numbers, which is what experiment trackers take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jaxobs.model.snapshot import all_compile_seconds, longest_loops

PREFIX: Final = "jaxobs/"

MAIN_LOOP: Final = "train"
"""The default name of a loop. The keys of the main loop's figures do not name the loop."""

OF_A_LOOP: Final = (
    "step_seconds", "steps_per_second", "examples_per_second", "tokens_per_second", "mfu", "hfu", "device_idle",
)  # fmt: skip

MAX_LOOPS: Final = 8
"""Most loops whose figures are given: trackers draw a chart for each figure, so a hundred loops would be a thousand."""


def flat_values(document: Mapping[str, Any]) -> dict[str, float]:
    """The known figures, under keys such as `jaxobs/mfu`, `jaxobs/bottleneck/compute` and `jaxobs/eval/mfu`.

    Keys name the loop unless it is the main one: `train`, or where there is none the loop that took longest. What is
    not known is absent. Times are in seconds, sizes in bytes, shares from 0 to 1.
    """
    found: dict[str, float] = {}
    for rank, (name, loop) in enumerate(_main_loop_first(document)[:MAX_LOOPS]):
        prefix = f"{PREFIX}{name}/" if rank else PREFIX
        found |= {prefix + key: value for key, value in _of_loop(loop)}
    found |= {PREFIX + key: value for key, value in _of_process(document)}
    return {key: float(value) for key, value in found.items() if is_number(value)}


def steps_of_main_loop(document: Mapping[str, Any]) -> int | None:
    """The number of steps that the main loop has ended, by which trackers order values; None where there is no loop."""
    main = main_loop(document)
    return None if main is None else int(main[1].get("steps") or 0)


def main_loop(document: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """The name of the main loop and what is known of it; None where there is no loop."""
    return next(iter(_main_loop_first(document)), None)


def _main_loop_first(document: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The loops with their names: the main one first, then the others, the longest first."""
    names = sorted(longest_loops(document), key=lambda name: name != MAIN_LOOP)
    return [(name, document["loops"][name]) for name in names]


def _of_loop(loop: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((key, loop.get(key)) for key in OF_A_LOOP)
    bottleneck = loop.get("bottleneck") or {}
    yield from ((f"bottleneck/{word}", share) for word, share in (bottleneck.get("shares") or {}).items())
    if bottleneck.get("shares"):
        yield "bottleneck_confidence", bottleneck.get("confidence")


def _of_process(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    process = document.get("process") or {}
    yield "goodput", process.get("goodput")
    yield "process_memory_in_use_bytes", (process.get("memory") or {}).get("in_use_bytes")
    memories = [device.get("memory") or {} for device in document.get("devices") or []]
    for key in ("in_use_bytes", "peak_bytes"):  # of the fullest device, which runs out of memory first
        known = [held[key] for held in memories if is_number(held.get(key))]
        yield f"device_memory_{key}", max(known, default=None)
    functions = (document.get("functions") or {}).values()
    if functions and not document.get("functions_left_out"):  # else the counts would be too low
        yield "compilations", sum(entry.get("compilations") or 0 for entry in functions)
        yield "recompilations", sum(entry.get("recompilation_count") or 0 for entry in functions)
    if functions:
        yield "compile_seconds", all_compile_seconds(document)


def is_number(value: Any) -> bool:
    """Whether it is a finite number; other values are reasons, or not known."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
