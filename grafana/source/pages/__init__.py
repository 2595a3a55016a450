"""The dashboards, a file each."""

from __future__ import annotations

from typing import Final

from grafana.source.chart import Page
from grafana.source.pages import compiles, fleet, hardware, memory, overview, roofline

PAGES: Final[tuple[Page, ...]] = (
    overview.PAGE, roofline.PAGE, compiles.PAGE, memory.PAGE, hardware.PAGE, fleet.PAGE,
)  # fmt: skip
