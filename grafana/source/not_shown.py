"""Metrics on no panel, and why."""

from __future__ import annotations

from typing import Final

NOT_SHOWN: Final[dict[str, str]] = {
    "jaxobs_bottleneck_info": (
        "a label cannot be averaged over ranks: panels take the largest of jaxobs_bottleneck_ratio instead"
    ),
}
