"""The page /metrics of one snapshot, rendered when first requested and kept until the next snapshot."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

from jaxobs.model.metrics import Family
from jaxobs_plugins.prometheus.pages.render import render

_COMPRESSION_LEVEL = 1  # of 959 kB (10 000 series) it makes 109 kB in 2.7 ms; level 6 makes 100 kB in 5.5 ms


class MetricsPage:
    """The page /metrics of one snapshot, for use by one thread at a time: the server's."""

    def __init__(self, families: tuple[Family, ...] = (), resource: Mapping[str, str] | None = None) -> None:
        self._families = families
        self._resource = dict(resource or {})
        self._bodies: dict[tuple[str, bool], bytes] = {}  # at most four: two formats, plain and compressed

    @property
    def instance(self) -> str:
        """The `service.instance.id` of this process; empty where the resource has none."""
        return self._resource.get("service.instance.id", "")

    def body(self, content_type: str, compressed: bool) -> bytes:
        """The page in the format `content_type` of `render`, as gzip where `compressed`."""
        key = content_type, compressed
        if key not in self._bodies:
            self._bodies[key] = (
                gzip.compress(self.body(content_type, compressed=False), _COMPRESSION_LEVEL, mtime=0)
                if compressed
                else render(self._families, self._resource, content_type)
            )
        return self._bodies[key]
