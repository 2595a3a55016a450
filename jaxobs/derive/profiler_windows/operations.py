"""Time, work and efficiency of each operation, summed over all profiler windows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

from jaxobs.derive.profiler_windows.loop_profile import RECORDED
from jaxobs.derive.series import Heaviest
from jaxobs.model.cost import OTHER_CALLS, Cost
from jaxobs.model.figure import Figure, figure, plain
from jaxobs.roofline_model.call_tree import PATHS, Part, call_tree
from jaxobs.roofline_model.operation_work import Work
from jaxobs.roofline_model.traced import Operation, Profiled
from jaxobs.vocabulary.text import OTHER

MAY_BE_ABSENT = (
    "share", "flops", "bytes", "intensity", "achieved_flops_per_second", "bound", "unmodelled_seconds", "exact",
)  # fmt: skip
"""Figures of a row that have a reason beside them only where they are absent."""

OF_A_FRAME = ("share", "flops", "bytes", "bound")
"""Those of them that a frame of the trees has."""

Row = dict[str, Any]
"""An operation as plain data."""

DeviceTime = Callable[[], Figure[Mapping[str, list[Row]]]]
"""Makes the rows of the trees by line and by named scope, whose leaves add up to the time of all operations. It takes
0.19 s for 5 000 operations (measured). That is once after each window, when a document is first read, as a kept run's
exporters do each second; without a reader it is never."""

KEPT = 5_000
"""Most operations remembered; when there are more, the half of this with the most time is kept. A large model's step
has some thousand."""

SHOWN = 100
"""Operations listed in a snapshot: those with the most time."""

NO_WINDOW = "single operations are seen in profiler windows only, and none has been read"

Key = tuple[str, str, str]
"""Function, fingerprint of the executable, operation."""


Count = tuple[Key, tuple[str, str, str], float, Cost | None]
"""An operation, the labels of the series that it belongs to now, all its device seconds in windows, and all its work;
None where that is not modelled."""


class Operations:
    """The operations of all windows so far. `limit` operations, and as many functions, have series of their own."""

    def __init__(self, limit: int) -> None:
        self._with_series: Heaviest[tuple[str, str, str]] = Heaviest(limit)
        self._functions: Heaviest[str] = Heaviest(limit)
        self._seen: dict[Key, Operation] = {}
        self._busy: Counter[str] = Counter()
        self._unmodelled: Counter[str] = Counter()
        self.operations: Figure[list[Row]] = Figure(None, NO_WINDOW)
        self.about: list[tuple[str, str, str, str]] = []
        """Function, operation, scope and source line of the operations with series of their own."""
        self.unmodelled_ratios: dict[str, float] = {}
        """By function, the share of its device time in operations whose work is not known."""
        self._counts: list[Count] = []
        self.device_time: DeviceTime = lambda: Figure(None, NO_WINDOW)
        self._forgotten: dict[str, Work] = {}
        """Operations that are remembered no more, by bottleneck."""

    def add(self, profiled: Profiled, functions: Mapping[str, str], lasted: float) -> None:
        """Add one window of so many seconds. `functions` gives the function of each executable's fingerprint.

        Shares of what was sampled need no whole run. But where a run is longer than the window, and its longest
        operations were not recorded, the others stand for nothing.
        """
        room = RECORDED * lasted * len(profiled.devices)
        only_parts = profiled.only_parts() if profiled.busy_seconds < room else frozenset()
        for (module, identity, _), operation in profiled.operations.items():
            if (module, identity) in only_parts:
                continue
            fingerprint = operation.fingerprint or ""
            function = functions.get(fingerprint) or (operation.module or "").removeprefix("jit_")
            key = (function, fingerprint, operation.name)
            seen = self._seen.setdefault(key, replace(operation, work=Work(), count=0, executions=0))
            seen.work.merge(operation.work)
            seen.count += operation.count
            seen.executions += operation.executions
            self._busy[function] += operation.work.seconds  # type: ignore[assignment]  # Counter adds floats as well
            if operation.label == "unmodelled":
                self._unmodelled[function] += operation.work.seconds  # type: ignore[assignment]
        self._count()
        if len(self._seen) > KEPT:
            ranked = sorted(self._seen, key=lambda key: -self._seen[key].work.seconds)
            for key in ranked[KEPT // 2 :]:
                seen = self._seen.pop(key)
                self._forgotten.setdefault(seen.label, Work()).merge(seen.work)
        self._draw()

    def counts(self) -> list[Count]:
        """Take what was counted since the last call, of each operation."""
        counts, self._counts = self._counts, []
        return counts

    def _count(self) -> None:
        """Count. An operation of a function is one series for all executables of the function."""
        groups: defaultdict[tuple[str, str, str], list[Key]] = defaultdict(list)
        for key, seen in self._seen.items():
            groups[key[0], seen.name, seen.category].append(key)
        shown = self._with_series.choose(
            {labels: (sum(self._seen[key].work.seconds for key in keys),) for labels, keys in groups.items()}
        )
        self._counts, self.about = [], []
        for labels, keys in groups.items():
            name = labels if labels in shown else (OTHER, OTHER, OTHER)
            for key in keys:
                work = self._seen[key].work
                # Work that is not modelled is not 0.
                self._counts.append((key, name, work.seconds, work.cost if work.bounds else None))
            if labels in shown:
                newest = self._seen[keys[-1]]
                self.about.append((labels[0], labels[1], newest.scope, newest.source))
        functions = self._functions.choose({name: (busy,) for name, busy in self._busy.items() if name})
        self.unmodelled_ratios = {
            name: self._unmodelled[name] / self._busy[name] for name in functions if self._busy[name] > 0
        }

    def _draw(self) -> None:
        """Build the rows of the snapshot, which change only with a new window."""
        everything = sorted(self._seen.items(), key=lambda pair: -pair[1].work.seconds)
        works = [seen.work for _, seen in everything] + list(self._forgotten.values())
        busy = sum(work.seconds for work in works)
        self.operations = Figure([_operation(key[0], seen, busy) for key, seen in everything[:SHOWN]])
        kept = [replace(seen, work=copy(seen.work)) for _, seen in everything]
        forgotten = [Part((OTHER_CALLS,), label, copy(work)) for label, work in self._forgotten.items()]
        self.device_time = cache(lambda: Figure({
            name: _tree([Part(path(one), one.label, one.work, one.name) for one in kept] + forgotten, busy)
            for name, path in PATHS.items()
        }))  # fmt: skip


def _tree(parts: Iterable[Part], busy: float) -> list[Row]:
    return [node.row(lambda work: _figures(work, busy, OF_A_FRAME)) for node in call_tree(parts)]


def _operation(function: str, seen: Operation, busy: float) -> Row:
    return {
        **figure(function or None, "the trace does not tell its module").under("function"),
        **figure(seen.fingerprint or None, "the trace does not tell its executable").under("executable"),
        "operation": seen.name,
        **{
            name: getattr(seen, name)
            for name in ("category", "kind", "scope", "source", "called_from", "count", "executions")
        },
        "bottleneck": seen.label,
        **_figures(seen.work, busy),
    }


def _figures(work: Work, busy: float, may_be_absent: Iterable[str] = MAY_BE_ABSENT) -> Row:
    """Time, work and efficiency, as far as they are known; an efficiency above 1 has a reason too."""
    known = work.figures(busy)
    why = known["reason"] or "no floating-point work or no byte of device memory in it"
    no_efficiency = why if known["efficiency"] is None else None
    return {
        **plain({name: figure(known[name], why) for name in may_be_absent}),
        **Figure(known["efficiency"], known["efficiency_reason"] or no_efficiency).under("efficiency"),
        **{name: known[name] for name in ("seconds", "self_seconds", "reason")},
    }
