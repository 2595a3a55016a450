"""What limits an operation or an executable: a compute unit, the memory, or the time that launching takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jaxobs.roofline_model.bounds import Bound

LATENCY_FACTOR = 10.0
"""How many times its bound time an executable's device time must be for it to be limited by launching and waiting, and
not by a unit or memory. Measured kernels of real models reach 10 % of the roof or more; chains of small ones come out
at 1 % and below."""

LONGEST_LATENCY = 100e-6
"""Longest execution, s, that can be `latency`: ten times the most that launching takes. A jitted call takes 5 µs of the
host, launching a GPU's kernel some 2 to 10 µs, an operation of a CPU 0.3 to 0.7 µs (measured with an 8 × 8 product)."""

HALF_SURE_STEPS = 10
"""With this many steps the small number of samples halves the confidence: n / (n + 10)."""

HALF_SURE_RUNS = HALF_SURE_STEPS / 2
"""As many runs of one executable, which are more alike than steps, halve it."""


MIN_SHARE = 1e-6
"""Share below which time is none: it is what is left over where sums of clocks differ."""

UNTOLD = "what the device did in that time could not be told"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bottleneck: its `label` and the runner-up, both words of COMPONENTS, and a confidence from 0 to 1."""

    label: str
    confidence: float
    runner_up: str | None
    shares: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain data. `unknown` always has a reason, and a share that is next to nothing is none."""
        return {
            "label": self.label,
            "confidence": self.confidence,
            "runner_up": self.runner_up,
            "runner_up_reason": None if self.runner_up else self.reason or "nothing else took time",
            "shares": {word: share if share >= MIN_SHARE else 0.0 for word, share in self.shares.items()},
            "reason": self.reason or (UNTOLD if self.label == "unknown" else None),
        }


class Modelled(NamedTuple):
    """What is known of the work of a run: its bound, and whether that includes all of it.

    Where it does not, time far above it may be spent on the rest of the work.
    """

    bound: Bound | None
    complete: bool = True
    operations: float | None = None
    """How many it executes; None where they are not counted. Where it takes longer than launching so many can, it waits
    for something else, such as processors that other programs use."""


def label_of_busy(work: Modelled, measured_seconds: float | None) -> str:
    """The label that the device's time in an executable is charged to, by its measured time and its bound time."""
    bound, complete, operations = work
    if bound is None or (bound.unknown and bound.limit is None):
        return "unmodelled"
    if bound.seconds is None or bound.limit is None or measured_seconds is None:
        return "unknown"
    if measured_seconds <= LATENCY_FACTOR * bound.seconds:
        return bound.limit
    if not complete:
        return "unmodelled"
    beyond = measured_seconds - bound.seconds
    launched = operations is None or beyond <= LONGEST_LATENCY * max(1.0, operations)
    return "latency" if launched else "unknown"


def of_executable(work: Modelled, measured_seconds: float | None, samples: int) -> Verdict:
    """The bottleneck of one executable as a whole; see `label_of_busy`."""
    label, bound = label_of_busy(work, measured_seconds), work.bound
    if measured_seconds is None:
        return Verdict(label, 0.0, None, reason="its device time is not known")
    if bound is None or bound.seconds is None or bound.limit is None:
        why = bound.reason if bound is not None and (bound.unknown or bound.missing) else None
        return Verdict(label, 0.0, None, reason=why or "its bound time is not known")
    if label in {"unknown", "unmodelled"}:
        enough = (
            "the work that is modelled" if label == "unmodelled" else "its work and launching it can take"
        )
        return Verdict(label, 0.0, None, reason=f"it took far longer than {enough}")
    compute, memory = bound.compute_seconds or 0.0, bound.memory_seconds or 0.0
    beyond = max(0.0, measured_seconds - bound.seconds)
    weights = {"compute": compute, "memory": memory, "latency": beyond / LATENCY_FACTOR}
    runner_up = max((word for word in weights if word != label), key=lambda word: weights[word])
    lead = margin(weights[label], weights[runner_up])
    return Verdict(label, confidence(lead, samples, HALF_SURE_RUNS), runner_up)


def margin(first: float, second: float, doubtful: float = 0.0) -> float:
    """The lead of `first` over `second` as a share of both, from 0 to 1, with `doubtful` of it taken off."""
    both = first + second
    return max(0.0, first - second - doubtful) / both if both > 0 else 0.0


def confidence(lead: float, samples: float, half_sure: float, explained: float = 1.0) -> float:
    """How sure a label with this margin is, from 0 to 1, by the number of samples and the share of explained time."""
    return lead * samples / (samples + half_sure) * max(0.0, explained)
