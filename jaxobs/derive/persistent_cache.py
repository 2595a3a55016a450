"""JAX's persistent compilation cache: whether it is on, what it gave, and what it saved."""

from __future__ import annotations

import math
from typing import Any

from jaxobs.derive import catalogue as core
from jaxobs.derive.series import Series
from jaxobs.model.events import CACHE_SECONDS_SAVED, Compilation

NOT_COMPILED = "nothing was compiled yet"


class PersistentCache:
    """By what the compiles themselves said."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self.enabled: bool | None = None
        self.hits = self.misses = 0
        self.seconds_saved = 0.0
        series.total(core.CACHE_SECONDS_SAVED, (), 0.0)

    def compiled(self, event: Compilation) -> None:
        """Each executable is a hit, a miss, or was made with the cache off."""
        self.enabled = event.persistent_cache != "off"
        self._series.set(core.CACHE_ENABLED, (), float(self.enabled))
        self.hits += event.persistent_cache == "hit"
        self.misses += event.persistent_cache == "miss"
        saved = dict(event.attributes).get(CACHE_SECONDS_SAVED)
        if isinstance(saved, (int, float)) and math.isfinite(saved):
            self.seconds_saved += saved
            # Reading may take longer than compiling did: the counter counts gains, the document what is left of them.
            self._series.add(core.CACHE_SECONDS_SAVED, (), max(0.0, saved))

    def document(self) -> dict[str, Any]:
        return {
            "enabled": self.enabled,
            "enabled_reason": NOT_COMPILED if self.enabled is None else None,
            "hits": self.hits,
            "misses": self.misses,
            "seconds_saved": self.seconds_saved,
        }
