"""What jaxobs shows of a program, beside the program's own truth and the marked run. Pure: from data to figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.observed import Run
from benchmarks.truths import Figure

RATE_TOLERANCE = 0.05
MFU_TOLERANCE = 0.10
SURE = 0.1
"""Below this confidence no bottleneck is clear, as the summary says too."""

_CLOCKS = re.compile(r'"(seconds|steps_per_second)": [0-9.e+-]+')


def main_loop(documents: Sequence[Mapping[str, Any]], truth: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Name and document of the loop that trains: by its function's name, else the one that took longest.

    From the last snapshot in which it has a rate: some time after its last step it has none any more.
    """
    for name in _loops_by_rank(documents, truth):
        for document in reversed(documents):
            loop = (document["loops"] or {}).get(name)
            if loop and loop["steps_per_second"] is not None:
                return name, loop
        return name, documents[-1]["loops"][name]
    return None


def _loops_by_rank(documents: Sequence[Mapping[str, Any]], truth: Mapping[str, Any]) -> list[str]:
    loops = (documents[-1]["loops"] or {}) if documents else {}
    named = [name for name in loops if _is_named(name, truth["functions"])]
    return named or sorted(loops, key=lambda name: -(loops[name]["wall_seconds"] or 0.0))


def _is_named(loop: str, functions: Sequence[str]) -> bool:
    """Whether a loop has the name of one of the functions, with or without the place where it is called."""
    return any(re.search(rf"(^|\W){re.escape(function)}(\W|$)", loop) for function in functions)


def judge_loop(found: tuple[str, Any] | None, truth: Mapping[str, Any]) -> Figure:
    """Its name, and whether it is that of the program's function."""
    if found is None:
        return Figure("loop", None, truth["functions"][0], note="no loop")
    name, loop = found
    expected = name if _is_named(name, truth["functions"]) else truth["functions"][0]
    return Figure("loop", name, expected, note=f"{loop['steps']} steps of {truth['steps']}")


def judge_rate(found: tuple[str, Any] | None, truth: Mapping[str, Any]) -> Figure:
    """Steps a second beside the program's own count of calls, or of the iterations in them.

    A rate that says itself what else is in its time is not the one that was asked for, and not false either: absent.
    """
    own = truth["steps_per_second"]
    rate = found[1]["steps_per_second"] if found else None
    if rate is None:
        return Figure("steps/s", None, own)
    nearest = min((own, own * (truth["iterations"] or 1)), key=lambda value: abs(rate / value - 1))
    said = found[1].get("steps_per_second_reason") if found else None
    if said and abs(rate / nearest - 1) > RATE_TOLERANCE:
        return Figure("steps/s", None, nearest, note=f"{rate:.4g}: {said}")
    return Figure("steps/s", rate, nearest, RATE_TOLERANCE)


def mfu_by_hand(truth: Mapping[str, Any], document: Mapping[str, Any]) -> float | None:
    """From the closed form of the FLOPs and the program's clock, at the peak that jaxobs names for float32."""
    if truth["matrix_flops"] is None:
        return None
    for device in document["devices"] or ():
        peak = ((device["peaks"] or {}).get("matrix") or {}).get("float32")
        if peak:
            return float(truth["matrix_flops"] * truth["steps_per_second"] / peak["value"])
    return None


def whole_mfu(loop: tuple[str, Any] | None) -> float | None:
    """The MFU of a loop unless it is a lower bound, as where no profiler window has counted the turns of a solver."""
    if loop is None or "lower bound" in (loop[1].get("mfu_reason") or ""):
        return None
    mfu: float | None = loop[1]["mfu"]
    return mfu


def judge_mfu(mfu: float | None, marked: float | None, by_hand: float | None, pace: float = 1.0) -> Figure:
    """MFU beside the one by hand, else beside the marked run's.

    `pace`: how much faster the program went than in its marked run, by its own clock. Machines differ from minute to
    minute, and MFU with them: the marked one is shown at the pace of this run.
    """
    marked = None if marked is None else marked * pace
    note = f"marked: {marked:.1%}" if marked is not None else ""
    return Figure("MFU", mfu, by_hand if by_hand is not None else marked, MFU_TOLERANCE, note=note)


def judge_bottleneck(found: tuple[str, Any] | None, marked: tuple[str, Any] | None) -> Figure:
    """The label beside the marked run's, where both are sure."""
    observed, reference = (loop[1]["bottleneck"] if loop else None for loop in (found, marked))
    note = " / ".join(
        f"{one['label']} {one['confidence']:.2f}" if one else "–" for one in (observed, reference)
    )
    if observed is None or observed["label"] == "unknown":
        return Figure("bottleneck", None, note=note)
    sure = reference is not None and reference["label"] != "unknown" and reference["confidence"] >= SURE
    if observed["label"] != (reference or {}).get("label"):
        sure = sure and observed["confidence"] >= SURE
    return Figure(
        "bottleneck", observed["label"], reference["label"] if sure and reference else None, note=note
    )


def judge_same(plain: Run, observed: Run) -> Figure:
    """Whether it wrote and ended as without jaxobs; its clock's figures, and the times in log lines, apart."""
    differences = [
        name
        for name, one, other in (
            ("status", plain.status, observed.status),
            ("output", _CLOCKS.sub("", plain.stdout), _CLOCKS.sub("", observed.stdout)),
            ("errors", _without_numbers(plain.stderr), _without_numbers(_own_stderr(observed))),
        )
        if one != other
    ]
    return Figure("as without", ", ".join(differences) + " differ" if differences else "same", "same")


def _own_stderr(run: Run) -> str:
    """What the script itself wrote there: neither the summary nor our own log, which INFO shows."""
    lines = run.stderr.removesuffix(run.summary).splitlines(keepends=True)
    return "".join(line for line in lines if " jaxobs: " not in line)


def _without_numbers(text: str) -> str:
    """Without numbers, and without warnings of shared memory, which Grain's workers leave at their end by chance."""
    lines = (line for line in text.splitlines(keepends=True) if "resource_tracker" not in line)
    return re.sub(r"\d+", "#", "".join(lines))
