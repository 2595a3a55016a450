"""One executable: what is known of it, and how long the device takes for one run."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxobs.derive.roofline import Bound
from jaxobs.model.cost import Cost, ModuleCost

SAMPLES_KEPT = 21
"""Sampled runs whose median is an executable's device time: enough to outlive a few disturbed ones, few enough to follow
a change within a minute."""


@dataclass(slots=True)
class Executable:
    """One executable; `number` is the probe's, `fingerprint` the stable hash of its content."""

    number: int
    function: str
    memory: Mapping[str, int]
    devices: int
    module: ModuleCost | None = None
    cost: Cost | None = None
    bound: Bound | None = None
    fingerprint: str = ""
    cost_reason: str = "its module is being analysed"
    runs: int = 0
    seconds: float = 0.0
    samples: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    spacings: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    sample_count: int = 0

    @property
    def is_analysed(self) -> bool:
        """Whether its cost is known, or known not to be had."""
        return bool(self.fingerprint)

    @property
    def seconds_per_run(self) -> float | None:
        """Device seconds of one run: the median of the newest samples, and no more than the spacing of its runs."""
        if not self.samples:
            return None
        return min(
            statistics.median(self.samples), statistics.median(self.spacings) if self.spacings else math.inf
        )

    @property
    def lower_bound_reason(self) -> str | None:
        """Why its cost, and so its bound time, is a lower bound; None where it is exact."""
        if self.cost is None or (self.cost.exact and not self.cost.unmodelled):
            return None
        reasons = self.cost.inexact_reasons or tuple(f"{name} is unmodelled" for name in self.cost.unmodelled)
        return "a lower bound: " + "; ".join(reasons[:3] or ("its cost is",))

    @property
    def is_modelled(self) -> bool:
        """Whether its bound time holds all work that could dominate it."""
        if self.bound is None or self.cost is None or self.lower_bound_reason is not None:
            return False
        if self.cost.collective_bytes:
            return False  # how much of its time went to its collectives cannot be told from outside
        return not any(name.startswith(("matrix", "memory")) for name in self.bound.missing)

    @property
    def working_set(self) -> float | None:
        """Bytes it touches on one device, of XLA's memory analysis; aliased outputs are the arguments themselves."""
        if not self.memory:
            return None
        known = {kind: float(amount) for kind, amount in self.memory.items()}
        return sum(known.get(kind, 0.0) for kind in ("argument", "output", "temporary")) - known.get(
            "alias", 0.0
        )
