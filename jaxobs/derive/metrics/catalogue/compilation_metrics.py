"""Compilations, recompilations and the persistent cache."""

from __future__ import annotations

from typing import Final

from jaxobs.model.metrics import Metric

COMPILE_BUCKETS: Final = (
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
)  # fmt: skip

COMPILATIONS = Metric("jaxobs_compilations_total", "counter", "Executables made.", ("function",))
COMPILE_SECONDS = Metric(
    "jaxobs_compile_seconds", "histogram", "Durations of compile phases, each without what is nested in it.",
    ("phase",), "seconds", COMPILE_BUCKETS,
)  # fmt: skip
COMPILE_FUNCTION_SECONDS = Metric(
    "jaxobs_compile_function_seconds_total", "counter", "Time spent compiling, by function and phase.",
    ("function", "phase"), "seconds",
)  # fmt: skip
COMPILING = Metric(
    "jaxobs_compiling_seconds", "gauge", "Age of a compile in flight; absent when there is none.", ("function",),
    "seconds",
)  # fmt: skip
RECOMPILATIONS = Metric(
    "jaxobs_recompilations_total", "counter", "Executables made for a function that had one already, by cause.",
    ("function", "cause"),
)  # fmt: skip
RECOMPILATION_SECONDS = Metric(
    "jaxobs_recompilation_seconds_total", "counter", "Time that recompilations took to trace, lower and compile.",
    ("cause",), "seconds",
)  # fmt: skip
CACHE_ENABLED = Metric(
    "jaxobs_persistent_cache_enabled",
    "gauge",
    "1 where the last compile could use JAX's persistent compilation cache.",
)
CACHE_SECONDS_SAVED = Metric(
    "jaxobs_persistent_cache_saved_seconds_total", "counter",
    "Compile time saved by the persistent cache, less the time to read it, as JAX reports it; losses are not deducted.",
    (), "seconds",
)  # fmt: skip
