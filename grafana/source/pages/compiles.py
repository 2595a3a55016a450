"""Compile: what was compiled, why again, and what it cost."""

from __future__ import annotations

from typing import Final

from grafana.source.chart import Chart, Override, Page, Query, Row, columns, one_column
from grafana.source.expressions import PROCESS, RUN, by, grown, mean_of_ranks, quantile, rate, selected
from grafana.source.links import TRACES_OF_ALL_COMPILES, TRACES_OF_COMPILES, TRACES_OF_THE_FUNCTION

_QUIET: Final = "Nothing was compiled in this time."
_BACKEND: Final = 'phase="backend"'
_NEVER_AGAIN: Final = "No function was compiled again: that is as it should be."
_NO_CACHE: Final = "JAX's persistent compilation cache is not in use: set `jax_compilation_cache_dir`."


def _so_far(metric: str, labels: str) -> str:
    """The count itself, since each process began: a counter that is born at 1 has no increase."""
    return by("sum", labels, selected(metric))


FUNCTIONS: Final = Chart(
    "Functions", "Executables of each function since the processes began, and the time to make them, over all ranks. A "
    "click on a function offers the traces of its compiles.",
    (
        Query(_so_far("jaxobs_compile_function_seconds_total", "run, function"), name="seconds", table=True),
        Query(_so_far("jaxobs_compilations_total", "run, function"), name="compiles", table=True),
        Query(_so_far("jaxobs_recompilations_total", "run, function"), name="again", table=True),
    ),
    "short", "table", 24, 9, empty=_QUIET, links=(TRACES_OF_COMPILES,),
    transformations=columns(
        {"seconds": "time", "compiles": "executables", "again": "compiled again"}, largest="time",
    ),
    overrides=(Override("time", {"unit": "s"}),),
)  # fmt: skip

_NOW: Final = (
    Chart("Compiling now", "Age of each compile in flight.",
          (Query(by("max", f"{PROCESS}, function", selected("jaxobs_compiling_seconds")),
                 RUN + " rank {{rank}} {{function}}"),),
          "s", empty="Nothing is being compiled.", absence="until it happens", steps=((1800.0, "red"),),
          links=(TRACES_OF_THE_FUNCTION,)),
    Chart("Time spent compiling", "Share of each rank's time, by phase, mean of the ranks. Known at its end: what took "
          "longer than the interval stands above 100 %.",
          (Query(mean_of_ranks("run, phase", rate("jaxobs_compile_seconds_sum")), RUN + " {{phase}}"),),
          "percentunit", stacked=True),
    Chart("Executables made", "By function since the processes began, over all ranks. A line that goes on rising is a "
          "function that is compiled for ever new shapes.",
          (Query(_so_far("jaxobs_compilations_total", "run, function"), RUN + " {{function}}"),),
          links=(TRACES_OF_THE_FUNCTION,)),
    Chart("Duration of the backend's compiles", "Median and slowest hundredth over all ranks. The dots are single "
          "compiles: a click opens their trace.",
          (Query(quantile(0.5, "jaxobs_compile_seconds", "run, phase", _BACKEND), RUN + " median",
                 exemplars=True),
           Query(quantile(0.99, "jaxobs_compile_seconds", "run, phase", _BACKEND), RUN + " 99 %", "B")),
          "s", empty=_QUIET, links=(TRACES_OF_ALL_COMPILES,)),
    Chart("Compiles a minute", "Compiles of the backend that ended, over all ranks.",
          (Query("60 * " + by("sum", "run", rate("jaxobs_compile_seconds_count", _BACKEND)), RUN),)),
    Chart("Time by function and phase", "Since the processes began, over all ranks.",
          (Query(_so_far("jaxobs_compile_function_seconds_total", "run, function, phase"),
                 RUN + " {{function}} {{phase}}"),),
          "s", stacked=True, links=(TRACES_OF_THE_FUNCTION,)),
)  # fmt: skip

_AGAIN: Final = (
    Chart("Compiled again, by cause", "Executables made for a function that had one already, since the processes began, "
          "over all ranks.",
          (Query(_so_far("jaxobs_recompilations_total", "run, function, cause") + " > 0", table=True),),
          "short", "table", empty=_NEVER_AGAIN,
          transformations=(one_column("times"),)),
    Chart("Time lost to compiling again", "Share of each rank's time, by cause, mean of the ranks, known at the end of "
          "each compile; an alert warns above a tenth.",
          (Query(by("avg", "run, cause", rate("jaxobs_recompilation_seconds_total")), RUN + " {{cause}}"),),
          "percentunit", stacked=True, empty=_NEVER_AGAIN, steps=((0.1, "red"),)),
)  # fmt: skip

_CACHE: Final = (
    Chart("Persistent cache in use", "1 where the last compile could use it, the least of the ranks.",
          (Query(by("min", "run", selected("jaxobs_persistent_cache_enabled")), RUN),),
          "bool_yes_no", "stat", 6, 7, empty=_QUIET),
    Chart("Requests of the persistent cache", "By outcome, over all ranks.",
          (Query(by("sum", "run, outcome", rate("jaxobs_persistent_cache_requests_total")), RUN + " {{outcome}}"),),
          width=9, height=7, empty=_NO_CACHE),
    Chart("Time saved by the persistent cache", "In this range, over all ranks, as JAX reports it.",
          (Query(by("sum", "run", grown("jaxobs_persistent_cache_saved_seconds_total")), RUN),),
          "s", "stat", 9, 7, empty=_NO_CACHE),
)  # fmt: skip

PAGE: Final = Page(
    "jaxobs-compile", "JAX / Compile", "What was compiled, why again, and what it cost.",
    (
        Row("Which functions cost the most to compile?", (FUNCTIONS,)),
        Row("What is compiled, and how long does it take?", _NOW),
        Row("Why was it compiled again?", _AGAIN),
        Row("Does the persistent cache help?", _CACHE),
    ),
)  # fmt: skip
