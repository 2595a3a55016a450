"""Keeps the operations of the executables that ran last, up to a number, since a job may compile without end."""

from __future__ import annotations

from collections import OrderedDict

from jaxobs.model.cost import OperationCost

OPERATIONS_KEPT = 100_000
"""Most operations kept, of some 560 bytes each (measured): ten steps of large models have some ten thousand each."""

LET_GO = f"its operations were let go of: those of the executables that ran last are kept, up to {OPERATIONS_KEPT:,}"
"""Why an executable has no bound time of its own operations."""


class KeptOperations:
    """Operations by the fingerprint of their module. Those used longest ago are dropped first."""

    def __init__(self, limit: int = OPERATIONS_KEPT) -> None:
        self._limit = limit
        self._by_fingerprint: OrderedDict[str, tuple[OperationCost, ...]] = OrderedDict()
        self._count = 0

    def keep(self, fingerprint: str, operations: tuple[OperationCost, ...]) -> None:
        """Keep the operations of one module: the newest stay even if they alone exceed the limit."""
        self._count += len(operations) - len(self._by_fingerprint.pop(fingerprint, ()))
        self._by_fingerprint[fingerprint] = operations
        while self._count > self._limit and len(self._by_fingerprint) > 1:
            _, oldest = self._by_fingerprint.popitem(last=False)
            self._count -= len(oldest)

    def used(self, fingerprint: str) -> None:
        """Note that the module ran just now."""
        if fingerprint in self._by_fingerprint:
            self._by_fingerprint.move_to_end(fingerprint)

    def of(self, fingerprint: str) -> tuple[OperationCost, ...] | None:
        """The operations of a module; None where they were dropped, or never known."""
        return self._by_fingerprint.get(fingerprint)

    def __len__(self) -> int:
        return self._count
