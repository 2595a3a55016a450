"""A mutable cost, for adding costs up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from jaxobs.model.cost import AMOUNTS_BY_NAME, Cost

_NOTHING: Final[dict[str, float]] = {}  # shared by all costs that lack a figure: never changed


class Tally:
    """Mutable counterpart of ``Cost``; reasons and unmodelled names are kept in order of appearance."""

    __slots__ = ("amounts", "bytes", "reasons", "transcendentals", "unmodelled")

    def __init__(self) -> None:
        self.amounts: dict[str, dict[str, float]] = {}
        """The fields of ``Cost`` in AMOUNTS_BY_NAME that are not empty, by name: mostly one or two."""
        self.reasons: dict[str, None] = {}
        self.unmodelled: dict[str, None] = {}
        self.transcendentals = 0.0
        self.bytes = 0.0

    def add_matrix(
        self, source: str, executed: str, flops: float, rematerialized: bool, precision: str | None = None
    ) -> None:
        """Add matrix FLOPs written in type ``source`` and run in type ``executed``, float32 ones at a ``precision``."""
        self.add_amount("matrix_flops_by_type", source, flops)
        self.add_amount("executed_matrix_flops_by_type", executed, flops)
        if rematerialized:
            self.add_amount("rematerialized_flops_by_type", source, flops)
        if precision is not None:
            self.add_amount("float32_flops_by_precision", precision, flops)
            if rematerialized:
                self.add_amount("rematerialized_float32_flops_by_precision", precision, flops)

    def add_vector(self, type_: str, flops: float) -> None:
        self.add_amount("vector_flops_by_type", type_, flops)

    def add_reason(self, reason: str) -> None:
        """Add a reason why the figures are not exact."""
        self.reasons[reason] = None

    def add_unmodelled(self, names: Iterable[str]) -> None:
        """Add the names of operations whose FLOPs are not in the figures."""
        self.unmodelled.update(dict.fromkeys(names))

    def add(self, other: Tally, times: float = 1.0) -> None:
        for name, theirs in other.amounts.items():
            for key, value in theirs.items():
                self.add_amount(name, key, value * times)
        self.transcendentals += other.transcendentals * times
        self.bytes += other.bytes * times
        self.reasons.update(other.reasons)
        self.unmodelled.update(other.unmodelled)

    def add_cost(self, cost: Cost) -> None:
        """Add a cost that a rule returned."""
        for name in AMOUNTS_BY_NAME:
            for key, value in getattr(cost, name).items():
                self.add_amount(name, key, value)
        self.transcendentals += cost.transcendentals
        self.bytes += cost.bytes
        self.reasons.update(dict.fromkeys(cost.inexact_reasons))
        self.add_unmodelled(cost.unmodelled)

    @property
    def flops(self) -> float:
        return sum(
            sum(self.amounts.get(name, _NOTHING).values())
            for name in ("matrix_flops_by_type", "vector_flops_by_type")
        )

    def freeze(self) -> Cost:
        """The present cost, which later additions do not change."""
        amounts: dict[str, Any] = dict.fromkeys(AMOUNTS_BY_NAME, _NOTHING)
        amounts.update((name, dict(values)) for name, values in self.amounts.items())
        return Cost(
            **amounts,
            transcendentals=self.transcendentals,
            bytes=self.bytes,
            exact=not (self.reasons or self.unmodelled),
            inexact_reasons=tuple(self.reasons),
            unmodelled=tuple(self.unmodelled),
        )

    def add_amount(self, name: str, key: str, value: float) -> None:
        """Add to an amount by its name, one of AMOUNTS_BY_NAME, and what it is of."""
        amounts = self.amounts.setdefault(name, {})
        amounts[key] = amounts.get(key, 0.0) + value
