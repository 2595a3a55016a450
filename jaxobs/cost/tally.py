"""A cost while it is being added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jaxobs.model.cost import Cost

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NOTHING: Final[Mapping[str, float]] = {}


class Tally:
    """Mutable counterpart of ``Cost``; reasons and unmodelled names are kept in order of appearance."""

    __slots__ = ("bytes", "collective", "executed", "matrix", "reasons", "rematerialized", "transcendentals",
                 "unmodelled", "vector")  # fmt: skip

    def __init__(self) -> None:
        self.matrix: dict[str, float] = {}
        self.executed: dict[str, float] = {}
        self.vector: dict[str, float] = {}
        self.transcendentals = 0.0
        self.rematerialized: dict[str, float] = {}
        self.bytes = 0.0
        self.collective: dict[str, float] = {}
        self.reasons: dict[str, None] = {}
        self.unmodelled: dict[str, None] = {}

    def add_matrix(self, source: str, executed: str, flops: float, rematerialized: bool) -> None:
        """Matrix FLOPs asked for in type ``source`` and run in type ``executed``."""
        self.matrix[source] = self.matrix.get(source, 0.0) + flops
        self.executed[executed] = self.executed.get(executed, 0.0) + flops
        if rematerialized:
            self.rematerialized[source] = self.rematerialized.get(source, 0.0) + flops

    def add_vector(self, type_: str, flops: float) -> None:
        self.vector[type_] = self.vector.get(type_, 0.0) + flops

    def add(self, other: Tally | Cost, times: float = 1.0) -> None:
        """Add ``other``, done ``times`` times."""
        if isinstance(other, Cost):
            pairs = (
                (self.matrix, other.matrix_flops_by_type),
                (self.executed, other.executed_matrix_flops_by_type),
                (self.vector, other.vector_flops_by_type),
                (self.rematerialized, other.rematerialized_flops_by_type),
                (self.collective, other.collective_bytes),
            )
            reasons: Iterable[str] = other.inexact_reasons
        else:
            pairs = (
                (self.matrix, other.matrix),
                (self.executed, other.executed),
                (self.vector, other.vector),
                (self.rematerialized, other.rematerialized),
                (self.collective, other.collective),
            )
            reasons = other.reasons
        for mine, theirs in pairs:
            for name, value in theirs.items():
                mine[name] = mine.get(name, 0.0) + value * times
        self.transcendentals += other.transcendentals * times
        self.bytes += other.bytes * times
        for reason in reasons:
            self.reasons[reason] = None
        for name in other.unmodelled:
            self.unmodelled[name] = None

    def raise_to(self, other: Tally) -> None:
        """Make every figure at least that of ``other``."""
        for mine, theirs in (
            (self.matrix, other.matrix),
            (self.executed, other.executed),
            (self.vector, other.vector),
            (self.rematerialized, other.rematerialized),
            (self.collective, other.collective),
        ):
            for name, value in theirs.items():
                mine[name] = max(mine.get(name, 0.0), value)
        self.transcendentals = max(self.transcendentals, other.transcendentals)
        self.bytes = max(self.bytes, other.bytes)
        self.reasons.update(other.reasons)
        self.unmodelled.update(other.unmodelled)

    def same_figures(self, other: Tally) -> bool:
        return self.freeze() == other.freeze()

    @property
    def flops(self) -> float:
        return sum(self.matrix.values()) + sum(self.vector.values())

    def freeze(self) -> Cost:
        return Cost(
            dict(self.matrix) or _NOTHING,
            dict(self.executed) or _NOTHING,
            dict(self.vector) or _NOTHING,
            self.transcendentals,
            dict(self.rematerialized) or _NOTHING,
            self.bytes,
            dict(self.collective) or _NOTHING,
            not self.reasons,
            tuple(self.reasons),
            tuple(self.unmodelled),
        )
