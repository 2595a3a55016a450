"""JAX's persistent compilation cache: whether it is on, what it saved, and what was compiled without it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from jaxobs.derive.metrics.catalogue import compilation_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.model.clock import seconds
from jaxobs.model.events import CACHE_SECONDS_SAVED, Compilation
from jaxobs.model.figure import Figure

NOT_COMPILED = "nothing was compiled yet"

CACHED_FROM: Final = 1.0
"""Least compile time, s, of a program that JAX writes to its cache: the default of
`jax_persistent_cache_min_compile_time_secs`."""


@dataclass(frozen=True, slots=True)
class PersistentCacheView:
    """What is shown of the cache. `enabled` is that of the latest compile, with a reason where other compiles differed.

    `seconds_without` is the compile time with the cache off, `seconds_not_kept` the part of it for programs that the
    cache would have kept.
    """

    enabled: Figure[bool]
    hits: int
    misses: int
    compilations_without: int
    seconds_saved: float
    seconds_without: float
    seconds_not_kept: float


class PersistentCache:
    """Counts hits and misses as the compiles themselves report them.

    JAX's settings are not read instead: it looks for its cache once, so a cache that is set later may stay off.
    """

    def __init__(self, series: Series) -> None:
        self._series = series
        self.enabled: bool | None = None
        self.hits = self.misses = self.without = 0
        self.seconds_saved = 0.0
        self.seconds_without = self.seconds_not_kept = 0.0
        series.total(compilation_metrics.CACHE_SECONDS_SAVED, (), 0.0)

    def compiled(self, event: Compilation) -> None:
        """Count one executable: a hit, a miss, or compiled with the cache off."""
        self.enabled = event.persistent_cache != "off"
        self._series.set(compilation_metrics.CACHE_ENABLED, (), float(self.enabled))
        self.hits += event.persistent_cache == "hit"
        self.misses += event.persistent_cache == "miss"
        if not self.enabled:
            spent = seconds(
                sum(max(0, end - start) for phase, start, end in event.phases if phase == "backend")
            )
            self.without += 1
            self.seconds_without += spent
            self.seconds_not_kept += spent if spent >= CACHED_FROM else 0.0
        saved = dict(event.attributes).get(CACHE_SECONDS_SAVED)
        if isinstance(saved, (int, float)) and math.isfinite(saved):
            self.seconds_saved += saved
            # Reading may take longer than compiling did: the counter adds gains alone, the document losses as well.
            self._series.add(compilation_metrics.CACHE_SECONDS_SAVED, (), max(0.0, saved))

    def view(self) -> PersistentCacheView:
        return PersistentCacheView(
            Figure(self.enabled, NOT_COMPILED if self.enabled is None else self._why_mixed()),
            self.hits,
            self.misses,
            self.without,
            self.seconds_saved,
            self.seconds_without,
            self.seconds_not_kept,
        )

    def _why_mixed(self) -> str | None:
        compilations = self.hits + self.misses + self.without
        if self.without in {0, compilations}:
            return None
        return f"of the latest compile: {self.without:,} of {compilations:,} could not use the cache"
