"""Observability for JAX training: where each step's time went, on the dashboards you already have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxobs.instrument import instrument
from jaxobs.model.cost import Cost
from jaxobs.model.profile import ProfileResult
from jaxobs.model.snapshot import Snapshot
from jaxobs.observer import Observer

if TYPE_CHECKING:
    __version__: str
    from jaxobs.measure.on_demand import cost, roofline
    from jaxobs.roofline_model.measured_run import Roofline

__all__ = [
    "Cost",
    "Observer",
    "ProfileResult",
    "Roofline",
    "Snapshot",
    "__version__",
    "cost",
    "instrument",
    "roofline",
]


def __getattr__(name: str) -> Any:
    """Load on first use what only notebooks and tests need: a training process needs no cost model.

    The version is read from the installed package's metadata, so that pyproject.toml is the only place that states it.
    """
    if name in {"Roofline", "cost", "roofline"}:
        from jaxobs.measure import on_demand as measuring

        return getattr(measuring, name)
    if name == "__version__":
        from importlib.metadata import version

        return version("jaxobs")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
