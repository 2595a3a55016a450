"""Operations as the profiler windows saw them, all windows together: time, work and efficiency of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxobs.derive.metrics.catalogue import profile_metrics
from jaxobs.derive.metrics.selection import Selection
from jaxobs.derive.metrics.series import Series
from jaxobs.model.metrics import Metric
from jaxobs.roofline_model.operation_work import Work
from jaxobs.roofline_model.traced import Operation, Profiled
from jaxobs.vocabulary.labels import OTHER

KEPT = 5_000
"""Operations remembered; of more, those with the least time go. A large model's step has some thousand."""

SHOWN = 100
"""Rows of the snapshot: the largest operations, and the largest scopes."""

NO_WINDOW = "single operations are seen in profiler windows only, and none has been read yet"

Key = tuple[str, str, str]
"""Function, fingerprint of the executable, operation."""


@dataclass(slots=True)
class Seen:
    """One operation in all windows so far."""

    function: str
    operation: Operation
    work: Work = field(default_factory=Work)
    count: int = 0
    executions: int = 0
    told: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Operations:
    """`limit` operations, and as many functions, keep series of their own."""

    def __init__(self, series: Series, limit: int) -> None:
        self._series = series
        self._selection: Selection[tuple[str, str, str]] = Selection(limit)
        self._functions: Selection[str] = Selection(limit)
        self._seen: dict[Key, Seen] = {}
        self._busy: Counter[str] = Counter()
        self._unmodelled: Counter[str] = Counter()
        self._rows: list[dict[str, Any]] | None = None
        self._scopes: list[dict[str, Any]] | None = None

    def add(self, joined: Profiled, functions: Mapping[str, str]) -> None:
        """One window. `functions` gives the function of each executable's fingerprint."""
        only_parts = joined.only_parts()
        for (module, identity, _), operation in joined.operations.items():
            if (module, identity) in only_parts:
                continue  # what is longer than the window is not in it
            fingerprint = operation.fingerprint or ""
            function = functions.get(fingerprint) or (operation.module or "").removeprefix("jit_")
            key = (function, fingerprint, operation.name)
            seen = self._seen.setdefault(key, Seen(function, operation))
            seen.work.merge(operation.work)
            seen.count += operation.count
            seen.executions += operation.executions
            self._busy[function] += operation.work.seconds  # type: ignore[assignment]  # Counter adds floats as well
            if operation.label == "unmodelled":
                self._unmodelled[function] += operation.work.seconds  # type: ignore[assignment]
        self._tell()
        if len(self._seen) > KEPT:
            ranked = sorted(self._seen, key=lambda key: -self._seen[key].work.seconds)
            self._seen = {key: self._seen[key] for key in ranked[: KEPT // 2]}
        self._draw()

    def document(self) -> dict[str, Any]:
        """The keys `operations` and `scopes` of a snapshot."""
        reason = None if self._rows is not None else NO_WINDOW
        return {
            "operations": self._rows,
            "operations_reason": reason,
            "scopes": self._scopes,
            "scopes_reason": reason,
        }

    def _tell(self) -> None:
        """Series of what is new; an operation of a function is one series, in whichever of its executables it ran."""
        weights: dict[tuple[str, str, str], tuple[float, ...]] = {}
        groups: dict[tuple[str, str, str], list[Seen]] = {}
        for seen in self._seen.values():
            labels = (seen.function, seen.operation.name, seen.operation.category)
            groups.setdefault(labels, []).append(seen)
            weights[labels] = (weights.get(labels, (0.0,))[0] + seen.work.seconds,)
        shown = self._selection.choose(weights)
        about: dict[tuple[str, ...], float] = {}
        for labels, members in groups.items():
            name = labels if labels in shown else (OTHER, OTHER, OTHER)
            for seen in members:
                now = (seen.work.seconds, seen.work.cost.flops, seen.work.cost.bytes)
                for metric, value, before in zip(_COUNTERS, now, seen.told, strict=True):
                    if (
                        metric is profile_metrics.OPERATION_SECONDS or seen.work.bounds
                    ):  # work that is not modelled is not 0
                        self._series.add(metric, name, max(0.0, value - before))
                seen.told = now
            if labels in shown:
                newest = members[-1].operation
                about[labels[0], labels[1], newest.scope, newest.source] = 1.0
        self._series.replace(profile_metrics.OPERATION_INFO, about.items())
        functions = self._functions.choose({name: (busy,) for name, busy in self._busy.items() if name})
        ratios = {
            (name,): self._unmodelled[name] / self._busy[name] for name in functions if self._busy[name] > 0
        }
        self._series.replace(profile_metrics.UNMODELLED, ratios.items())

    def _draw(self) -> None:
        """The rows of the snapshot, drawn when something is new."""
        everything = sorted(self._seen.values(), key=lambda seen: -seen.work.seconds)
        busy = sum(seen.work.seconds for seen in everything)
        self._rows = [_row(seen, busy) for seen in everything[:SHOWN]]
        scopes: dict[str, Work] = {}
        for seen in everything:
            if seen.operation.scope:
                scopes.setdefault(seen.operation.scope, Work()).merge(seen.work)
        ranked = sorted(scopes.items(), key=lambda pair: -pair[1].seconds)[:SHOWN]
        self._scopes = [{"scope": scope} | _figures(work, busy) for scope, work in ranked]


_COUNTERS: tuple[Metric, ...] = (
    profile_metrics.OPERATION_SECONDS,
    profile_metrics.OPERATION_FLOPS,
    profile_metrics.OPERATION_BYTES,
)


def _row(seen: Seen, busy: float) -> dict[str, Any]:
    operation = seen.operation
    no_module = None if operation.fingerprint else "the trace does not tell its executable"
    return {
        "function": seen.function or None,
        "function_reason": None if seen.function else "the trace does not tell its module",
        "executable": operation.fingerprint,
        "executable_reason": no_module,
        "operation": operation.name,
        "category": operation.category,
        "kind": operation.kind,
        "scope": operation.scope,
        "source": operation.source,
        "count": seen.count,
        "executions": seen.executions,
        "bottleneck": seen.work.label(operation.kind),
    } | _figures(seen.work, busy)


def _figures(work: Work, busy: float) -> dict[str, Any]:
    """Figures of an operation or a scope, each absent one with its reason; so has an efficiency above 1."""
    every = work.figures(busy)
    shown = {name: every[name] for name in _SHOWN_FIGURES}
    why = every["reason"] or "no floating-point work or no byte of device memory in it"
    return (
        {"seconds": every["seconds"], "self_seconds": every["self_seconds"]}
        | shown
        | {f"{name}_reason": why for name, value in shown.items() if value is None}
        | {"efficiency_reason": every["efficiency_reason"] or (why if shown["efficiency"] is None else None)}
        | {"reason": every["reason"]}
    )


_SHOWN_FIGURES = (
    "share", "flops", "bytes", "intensity", "achieved_flops_per_second", "efficiency", "bound", "unmodelled_seconds",
    "exact",
)  # fmt: skip
