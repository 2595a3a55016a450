"""A cost while it is being added up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jaxobs.model.cost import Cost

_NOTHING: Final[dict[str, float]] = {}  # shared: never changed
_NO_NAMES: Final[dict[str, None]] = {}  # shared: never changed
_BY_NAME: Final = (
    "matrix",
    "executed",
    "vector",
    "rematerialized",
    "collective",
    "precision",
    "precision_again",
)


class Tally:
    """Mutable counterpart of ``Cost``; reasons and unmodelled names are kept in order of appearance."""

    __slots__ = ("bytes", "collective", "executed", "matrix", "precision", "precision_again", "reasons", "rematerialized",
                 "transcendentals", "unmodelled", "vector")  # fmt: skip

    def __init__(self) -> None:
        # Most operations have one figure or two: a mapping is made when the first value comes.
        self.matrix = self.executed = self.vector = self.rematerialized = self.collective = _NOTHING
        self.precision = self.precision_again = _NOTHING
        self.reasons = self.unmodelled = _NO_NAMES
        self.transcendentals = 0.0
        self.bytes = 0.0

    def add_matrix(
        self, source: str, executed: str, flops: float, rematerialized: bool, precision: str | None = None
    ) -> None:
        """Matrix FLOPs asked for in type ``source`` and run in type ``executed``, float32 ones at a ``precision``."""
        self.matrix = _plus(self.matrix, source, flops)
        self.executed = _plus(self.executed, executed, flops)
        if rematerialized:
            self.rematerialized = _plus(self.rematerialized, source, flops)
        if precision is not None:
            self.precision = _plus(self.precision, precision, flops)
            if rematerialized:
                self.precision_again = _plus(self.precision_again, precision, flops)

    def add_executed(self, executed: str, flops: float) -> None:
        """Further passes of a product beside those that were asked for."""
        self.executed = _plus(self.executed, executed, flops)

    def add_vector(self, type_: str, flops: float) -> None:
        self.vector = _plus(self.vector, type_, flops)

    def add_collective(self, kind: str, sent: float) -> None:
        self.collective = _plus(self.collective, kind, sent)

    def add_reason(self, reason: str) -> None:
        """Why the figures are no exact cost."""
        self.reasons = {**self.reasons, reason: None}

    def add_unmodelled(self, names: Iterable[str]) -> None:
        """Operations whose FLOPs are not in the figures."""
        self.unmodelled = {**self.unmodelled, **dict.fromkeys(names)}

    def add(self, other: Tally, times: float = 1.0) -> None:
        for name in _BY_NAME:
            theirs = getattr(other, name)
            if theirs:
                mine = getattr(self, name)
                for key, value in theirs.items():
                    mine = _plus(mine, key, value * times)
                setattr(self, name, mine)
        self.transcendentals += other.transcendentals * times
        self.bytes += other.bytes * times
        if other.reasons:
            self.reasons = {**self.reasons, **other.reasons}
        if other.unmodelled:
            self.add_unmodelled(other.unmodelled)

    @classmethod
    def of(cls, cost: Cost) -> Tally:
        """The tally of a cost that a rule gave."""
        tally = cls()
        tally.matrix = dict(cost.matrix_flops_by_type)
        tally.executed = dict(cost.executed_matrix_flops_by_type)
        tally.vector = dict(cost.vector_flops_by_type)
        tally.transcendentals = cost.transcendentals
        tally.rematerialized = dict(cost.rematerialized_flops_by_type)
        tally.bytes = cost.bytes
        tally.collective = dict(cost.collective_bytes)
        tally.reasons = dict.fromkeys(cost.inexact_reasons)
        tally.unmodelled = dict.fromkeys(cost.unmodelled)
        tally.precision = dict(cost.float32_flops_by_precision)
        tally.precision_again = dict(cost.rematerialized_float32_flops_by_precision)
        return tally

    def raise_to(self, other: Tally) -> None:
        """Make every figure at least that of ``other``."""
        for name in _BY_NAME:
            mine, theirs = getattr(self, name), getattr(other, name)
            if theirs:
                keys = {**mine, **theirs}
                setattr(self, name, {key: max(mine.get(key, 0.0), theirs.get(key, 0.0)) for key in keys})
        self.transcendentals = max(self.transcendentals, other.transcendentals)
        self.bytes = max(self.bytes, other.bytes)
        self.reasons = {**self.reasons, **other.reasons}
        self.add_unmodelled(other.unmodelled)

    def same_figures(self, other: Tally) -> bool:
        return self.freeze() == other.freeze()

    @property
    def flops(self) -> float:
        return sum(self.matrix.values()) + sum(self.vector.values())

    def freeze(self) -> Cost:
        """The cost as it stands; later additions do not change it."""
        return Cost(
            dict(self.matrix) if self.matrix else _NOTHING,
            dict(self.executed) if self.executed else _NOTHING,
            dict(self.vector) if self.vector else _NOTHING,
            self.transcendentals,
            dict(self.rematerialized) if self.rematerialized else _NOTHING,
            self.bytes,
            dict(self.collective) if self.collective else _NOTHING,
            not self.reasons,
            tuple(self.reasons),
            tuple(self.unmodelled),
            dict(self.precision) if self.precision else _NOTHING,
            dict(self.precision_again) if self.precision_again else _NOTHING,
        )


def _plus(values: dict[str, float], name: str, value: float) -> dict[str, float]:
    """``values`` with ``value`` added under ``name``; changed in place but for the shared empty one."""
    if values is _NOTHING:
        return {name: value}
    values[name] = values.get(name, 0.0) + value
    return values
