"""Observability for JAX training: where each step's time went, on the dashboards you already have."""

from __future__ import annotations

from jaxobs.instrument import instrument

TYPE_CHECKING = False  # as `typing` has it, without importing that
if TYPE_CHECKING:
    from typing import Any

    __version__: str
    from jaxobs.cli.compare import compare
    from jaxobs.expectations import ExpectationError
    from jaxobs.measure.compile_explained import explain_compile
    from jaxobs.measure.on_demand import cost, memory, roofline
    from jaxobs.model.cost import Cost
    from jaxobs.model.profile import ProfileResult
    from jaxobs.observer import Observer
    from jaxobs.report.compile_explained import CompileExplanation
    from jaxobs.report.measured_run import Roofline
    from jaxobs.report.peak_memory import Memory
    from jaxobs.report.snapshot import Snapshot

__all__ = [
    "CompileExplanation",
    "Cost",
    "ExpectationError",
    "Memory",
    "Observer",
    "ProfileResult",
    "Roofline",
    "Snapshot",
    "__version__",
    "compare",
    "cost",
    "explain_compile",
    "instrument",
    "memory",
    "roofline",
]


_HOMES = {
    "CompileExplanation": "jaxobs.report.compile_explained",
    "Cost": "jaxobs.model.cost",
    "ExpectationError": "jaxobs.expectations",
    "Memory": "jaxobs.report.peak_memory",
    "Observer": "jaxobs.observer",
    "ProfileResult": "jaxobs.model.profile",
    "Roofline": "jaxobs.report.measured_run",
    "Snapshot": "jaxobs.report.snapshot",
    "compare": "jaxobs.cli.compare",
    "cost": "jaxobs.measure.on_demand",
    "explain_compile": "jaxobs.measure.compile_explained",
    "memory": "jaxobs.measure.on_demand",
    "roofline": "jaxobs.measure.on_demand",
}


def __getattr__(name: str) -> Any:
    """Load on first use: the import of jaxobs alone loads next to nothing, and nothing of the standard library.

    The version is read from the installed package's metadata, so that pyproject.toml is the only place that states it.
    """
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("jaxobs")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names that users may use, for completion: most are loaded on first use only."""
    return list(__all__)
