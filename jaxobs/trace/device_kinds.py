"""Finds the kind of device that made a trace: by its name in the trace, or else by figures that fit one kind alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jaxobs.trace.planes.metadata import Value

_NAMES: Final = ("device_type_string", "gpu_device_name")
_GIBIBYTE: Final = 2**30

# AMD's planes have no name. Architecture as major and minor number, compute units and memory in GiB tell these apart;
# from AMD's data sheets of each accelerator, https://www.amd.com/en/products/accelerators/instinct.html. MI350X and
# MI355X differ in the clock alone (2200 and 2400 MHz).
_AMD: Final[Mapping[tuple[int, int, int, int], Mapping[int | None, str]]] = {
    (9, 4, 304, 192): {None: "AMD Instinct MI300X"},
    (9, 4, 304, 256): {None: "AMD Instinct MI325X"},
    (9, 4, 228, 128): {None: "AMD Instinct MI300A"},
    (9, 5, 256, 288): {2200: "AMD Instinct MI350X", 2400: "AMD Instinct MI355X"},
}


def device_kind(platform: str, stats: Mapping[str, Value]) -> tuple[str | None, dict[str, float | str]]:
    """The device kind as JAX reports it, or None, and the plane's own figures."""
    figures: dict[str, float | str] = {
        name: value if isinstance(value, str) else float(value)
        for name, value in stats.items()
        if isinstance(value, (str, int, float))
    }
    named = next((figures[name] for name in _NAMES if figures.get(name)), None)
    if isinstance(named, str):
        return named, figures
    if platform == "cpu":
        return "cpu", figures
    if figures.get("device_vendor") == "AMD":
        return _amd(stats), figures
    return None, figures


def _amd(stats: Mapping[str, Value]) -> str | None:
    figures = [stats.get(name) for name in ("compute_cap_major", "compute_cap_minor", "core_count")]
    memory, clock = stats.get("memory_size"), stats.get("clock_rate")
    if not all(isinstance(figure, int) for figure in figures) or not isinstance(memory, int):
        return None
    major, minor, cores = (int(figure) for figure in figures if isinstance(figure, int))
    by_clock = _AMD.get((major, minor, cores, round(memory / _GIBIBYTE)), {})
    megahertz = round(clock / 1000) if isinstance(clock, int) else None
    return by_clock.get(None) or by_clock.get(megahertz)
