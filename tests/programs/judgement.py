"""What jaxobs said of a program, beside the program's own truth and the marked run. Pure: from data to verdicts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["right", "absent", "WRONG", "unsure"]
"""`unsure`: there is nothing to compare with, or the marked run itself is not sure."""

RATE_TOLERANCE = 0.05
MFU_TOLERANCE = 0.10
SURE = 0.1
"""Below this confidence no bottleneck is clear, as the summary says too."""

_CLOCKS = re.compile(r'"(seconds|steps_per_second)": [0-9.e+-]+')


@dataclass(frozen=True)
class Cell:
    """What is shown in the table, and whether it is right."""

    text: str
    verdict: Verdict


@dataclass(frozen=True)
class Row:
    """One program."""

    name: str
    loop: Cell
    rate: Cell
    mfu: Cell
    bottleneck: Cell
    same: Cell

    @property
    def cells(self) -> tuple[Cell, ...]:
        """In the order of the table."""
        return (self.loop, self.rate, self.mfu, self.bottleneck, self.same)


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


def judge_loop(found: tuple[str, Any] | None, truth: Mapping[str, Any]) -> Cell:
    """Its name, and whether it is that of the program's function."""
    if found is None:
        return Cell("no loop", "absent")
    name, loop = found
    return Cell(
        f"{name} ({loop['steps']} of {truth['steps']})",
        "right" if _is_named(name, truth["functions"]) else "WRONG",
    )


def judge_rate(found: tuple[str, Any] | None, truth: Mapping[str, Any]) -> Cell:
    """Steps a second beside the program's own count of calls, or of the iterations in them.

    A rate that says itself what else is in its time is not the one that was asked for, and not false either: absent.
    """
    own = truth["steps_per_second"]
    rate = found[1]["steps_per_second"] if found else None
    if rate is None:
        return Cell(f"– / {own:.4g}", "absent")
    inside = own * (truth["iterations"] or 1)
    nearest = min((own, inside), key=lambda value: abs(rate / value - 1))
    text = f"{rate:.4g} / {nearest:.4g} ({rate / nearest - 1:+.1%})"
    if abs(rate / nearest - 1) <= RATE_TOLERANCE:
        return Cell(text, "right")
    said = found[1].get("steps_per_second_reason") if found else None
    return Cell(f"{text}: {said}", "absent") if said else Cell(text, "WRONG")


def mfu_by_hand(truth: Mapping[str, Any], document: Mapping[str, Any]) -> float | None:
    """From the closed form of the FLOPs and the program's clock, at the peak that jaxobs names for float32."""
    if truth["matrix_flops"] is None:
        return None
    for device in document["devices"] or ():
        peak = ((device["peaks"] or {}).get("matrix") or {}).get("float32")
        if peak:
            return float(truth["matrix_flops"] * truth["steps_per_second"] / peak["value"])
    return None


def judge_mfu(mfu: float | None, marked: float | None, by_hand: float | None, pace: float = 1.0) -> Cell:
    """MFU beside the marked run's, and beside the one by hand; the latter decides where both are known.

    `pace`: how much faster the program went than in its marked run, by its own clock. Machines differ from minute to
    minute, and MFU with them: the marked one is shown at the pace of this run.
    """
    marked = None if marked is None else marked * pace
    text = " / ".join("–" if value is None else f"{value:.1%}" for value in (mfu, marked, by_hand))
    reference = by_hand if by_hand is not None else marked
    if mfu is None:
        return Cell(text, "absent" if reference is not None else "unsure")
    if reference is None:
        return Cell(text, "unsure")
    return Cell(text, "right" if abs(mfu / reference - 1) <= MFU_TOLERANCE else "WRONG")


def judge_bottleneck(found: tuple[str, Any] | None, marked: tuple[str, Any] | None) -> Cell:
    """The label beside the marked run's, where that one is sure."""
    labels = [loop[1]["bottleneck"] if loop else None for loop in (found, marked)]
    text = " / ".join(f"{label['label']} {label['confidence']:.2f}" if label else "–" for label in labels)
    observed, reference = labels
    if observed is None or observed["label"] == "unknown":
        return Cell(text, "absent")
    if reference is None or reference["label"] == "unknown" or reference["confidence"] < SURE:
        return Cell(text, "unsure")
    if observed["label"] == reference["label"]:
        return Cell(text, "right")
    return Cell(text, "WRONG" if observed["confidence"] >= SURE else "unsure")


@dataclass(frozen=True)
class Words:
    """What a run wrote, and how it ended."""

    status: int
    stdout: str
    stderr: str


def judge_same(plain: Words, observed: Words) -> Cell:
    """Whether it wrote and ended as without jaxobs; its clock's figures, and the times in log lines, apart."""
    differences = [
        name
        for name, one, other in (
            ("status", plain.status, observed.status),
            ("output", _CLOCKS.sub("", plain.stdout), _CLOCKS.sub("", observed.stdout)),
            ("errors", _without_numbers(plain.stderr), _without_numbers(observed.stderr)),
        )
        if one != other
    ]
    return Cell(
        ", ".join(differences) + " differ" if differences else "same", "WRONG" if differences else "right"
    )


def _without_numbers(text: str) -> str:
    """Without numbers, and without warnings of shared memory, which Grain's workers leave at their end by chance."""
    lines = (line for line in text.splitlines(keepends=True) if "resource_tracker" not in line)
    return re.sub(r"\d+", "#", "".join(lines))
