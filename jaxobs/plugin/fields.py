"""Reads a source query by query, for collectors, so that a query that fails costs only its own metrics.

A query that failed is tried again after RETRY_SECONDS, one that the source does not support after
UNSUPPORTED_RETRY_SECONDS. Counters are emitted as their growth. A gauge that is no longer known is withdrawn rather than
left at its last value.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from jaxobs.model.clock import monotonic, now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Collector
from jaxobs.plugin.protocol import Agent

Subject = TypeVar("Subject")
Labels = tuple[str, ...]
Sample = tuple[Metric, Labels, float | None]
"""A metric, its labels after those of the subject, and its value, for a counter the running total. None: unknown."""

RETRY_SECONDS = 30.0
UNSUPPORTED_RETRY_SECONDS = 600.0
"""Pause after an unsupported query: long, because a device rarely gains a feature; not for ever, because drivers are
updated under running jobs."""


@dataclass(frozen=True, slots=True)
class Query(Generic[Subject]):
    """A query of a source, and the metrics that its answer gives. `read` may raise."""

    metrics: tuple[Metric, ...]
    read: Callable[[Subject], Iterable[Sample]]


def metrics_of(queries: Iterable[Query[Any]]) -> tuple[Metric, ...]:
    """The metrics that the answers to these queries give, each once."""
    return tuple(dict.fromkeys(metric for query in queries for metric in query.metrics))


def why_not_used(resource: Mapping[str, str], platforms: Collection[str], device: str) -> str:
    """Why JAX uses no device of a kind, by the `platforms` of that kind; empty where it may use one."""
    platform = resource.get("jax.platform")
    if platform is None:
        return "JAX has made no backend yet"
    return "" if platform in platforms else f"JAX uses no {device}"


@dataclass(slots=True)
class _State:
    """The state of one query: when to try it again, and the gauges that it last emitted."""

    retry_at: float = -math.inf
    shown: frozenset[tuple[str, Labels]] = frozenset()


@dataclass(slots=True)
class Fields(Generic[Subject]):
    """The queries of one subject (a device, a process); `labels` come first in each of its series.

    `whole` names counters whose first total belongs to the job; the first total of the others was counted before it,
    and they start at 0. An error of the types in `unsupported` means that the source has no such figure; one of those
    in `passed_on` concerns the subject as a whole and is raised to the caller.
    """

    queries: Sequence[Query[Subject]]
    labels: Labels = ()
    whole: Collection[Metric] = ()
    unsupported: tuple[type[Exception], ...] = (NotImplementedError,)
    passed_on: tuple[type[Exception], ...] = ()
    clock: Callable[[], float] = monotonic
    _states: list[_State] = field(init=False)
    _totals: dict[tuple[str, Labels], float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._states = [_State() for _ in self.queries]

    def collect(self, subject: Subject) -> list[Measured]:
        """Run the queries that are due. Raises only errors of the types in `passed_on`; call `withdraw` then."""
        measured: list[Measured] = []
        for query, state in zip(self.queries, self._states, strict=True):
            if self.clock() < state.retry_at:
                continue
            try:
                samples = list(query.read(subject))
            except self.passed_on:
                raise
            except Exception as error:  # noqa: BLE001  # one field must not cost the others, whatever its library raises
                unsupported = isinstance(error, self.unsupported)
                state.retry_at = self.clock() + (UNSUPPORTED_RETRY_SECONDS if unsupported else RETRY_SECONDS)
                samples = []
            measured += self._measured(state, samples)
        return measured

    def withdraw(self) -> list[Measured]:
        """The values that withdraw every gauge, for a subject that cannot be queried any more."""
        return [gone for state in self._states for gone in self._measured(state, ())]

    def _measured(self, state: _State, samples: Iterable[Sample]) -> Iterator[Measured]:
        at = now()
        shown = set()
        for metric, labels, value in samples:
            if value is None:
                continue
            key = metric.name, (*self.labels, *labels)
            if metric.kind == "counter":
                yield Measured(*key, self._growth(metric, key, value), at)
            else:
                yield Measured(*key, float(value), at)
                shown.add(key)
        for name, labels in sorted(state.shown - shown):
            yield Measured(name, labels, math.nan, at)  # NaN withdraws a gauge
        state.shown = frozenset(shown)

    def _growth(self, metric: Metric, key: tuple[str, Labels], total: float) -> float:
        """The growth since the last reading; 0 where the total fell, because it was reset by an unknown amount."""
        before = self._totals.get(key, 0.0 if metric in self.whole else total)
        self._totals[key] = total
        return max(0.0, total - before)


class DeviceCollector(Collector):
    """Reads the devices of one kind, from when JAX is known to use them; before that `reason` says why it does not."""

    platforms: ClassVar[Collection[str]]
    """JAX's names of the platform of these devices."""

    device: ClassVar[str]
    """One of them, in the words of `reason`."""

    _agent: Agent | None = None
    _readers: Sequence[Callable[[], list[Measured]]] | None = None
    """What is called at each turn; None until JAX uses any device."""

    @abstractmethod
    def opened(self, agent: Agent) -> Sequence[Callable[[], list[Measured]]]:
        """Open the devices, by what JAX has told of them, and return what reads them. Sets `reason` where none is."""

    def start(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterable[Measured]:
        agent = self._agent
        if agent is None:
            return []
        if why_not := why_not_used(agent.resource, self.platforms, self.device):
            self.reason = why_not
            return []
        if self._readers is None:
            self._readers = self.opened(agent)
        return [value for read in self._readers for value in read()]
