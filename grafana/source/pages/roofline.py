"""Roofline: how close executables and operations come to what the device can do, and what holds them back."""

from __future__ import annotations

from typing import Final

from grafana.source.chart import Chart, Override, Page, Query, Row
from grafana.source.expressions import IN_LOOP, RUN, by, grown, rate, selected
from grafana.source.look import GOOD_WHEN_HIGH, NO_PEAK, PER_SECOND_AT_THE_RIGHT
from grafana.source.pages.roofline_chart import ROOFLINE
from grafana.source.pages.roofline_queries import NO_WINDOWS, NOT_TIMED, executable
from grafana.source.pages.roofline_tables import EXECUTABLES, OPERATIONS, PEAKS

_OVER_TIME: Final = (
    Chart("Efficiency", "Bound time over device time of each executable; above 1 where data stayed in cache.",
          (Query(executable("jaxobs_executable_efficiency_ratio"), RUN + " {{function}} {{executable}}"),),
          "percentunit", empty=NOT_TIMED, steps=GOOD_WHEN_HIGH),
    Chart("Achieved and attainable", "FLOP/s of one device, beside what its roof allows at that intensity.",
          (Query(executable("jaxobs_executable_achieved_flops_per_second"), "{{function}} {{executable}} achieved"),
           Query(executable("jaxobs_executable_attainable_flops_per_second"), "{{function}} {{executable}} attainable",
                 "B")),
          "flops", empty=NOT_TIMED),
    Chart("What bounds the work", "Least time that the work of each second could have taken, by what bounds it, mean of "
          "the ranks. What is missing up to 100 % is time in which the device could have been doing more.",
          (Query(by("avg", "run, loop, bound", rate("jaxobs_bound_seconds_total", IN_LOOP)), RUN + " {{bound}}"),),
          "percentunit", stacked=True, empty=NO_PEAK),
    Chart("Matrix FLOP/s by element type", "Over all devices of the run; `rematerialized` is computed a second time.",
          (Query(by("sum", "run, loop, dtype, kind", rate("jaxobs_flops_total", IN_LOOP)),
                 RUN + " {{dtype}} {{kind}}"),),
          "flops", stacked=True, empty=NOT_TIMED),
    Chart("Device-memory traffic", "Modelled bytes of watched runs, over all devices of the run.",
          (Query(by("sum", "run, loop", rate("jaxobs_bytes_total", IN_LOOP)), RUN + " {{loop}}"),),
          "Bps", empty=NOT_TIMED),
    Chart("Time without a cost", "Share of a function's device time, in profiler windows, in operations whose work is "
          "not known: the higher, the less its efficiency says.",
          (Query(by("avg", "run, function", selected("jaxobs_unmodelled_ratio")), RUN + " {{function}}"),),
          "percentunit", empty=NO_WINDOWS),
)  # fmt: skip

_MEASURED: Final = (
    PEAKS,
    Chart("Profiler windows", "Windows of JAX's profiler by what became of them: operations are known from `read` ones.",
          (Query(f"round({by('sum', 'run, outcome', grown('jaxobs_profile_windows_total'))})",
                 RUN + " {{outcome}}"),),
          "short", "stat", 6, 8),
    Chart("Time in profiler windows", "Share of the loop's wall time inside windows, mean of the ranks, and at the right "
          "steps inside them a second.",
          (Query(by("avg", "run, loop", rate("jaxobs_profiled_seconds_total", IN_LOOP)), RUN + " {{loop}}"),
           Query(by("max", "run, loop", rate("jaxobs_profiled_steps_total", IN_LOOP)), RUN + " {{loop}} steps/s", "B")),
          "percentunit", width=6, empty=NO_WINDOWS, overrides=(Override("B", PER_SECOND_AT_THE_RIGHT, of_query=True),)),
)  # fmt: skip

PAGE: Final = Page(
    "jaxobs-roofline", "JAX / Roofline",
    "How close executables and operations come to what the device can do, and what holds them back.",
    (
        Row("How close to the hardware?", (ROOFLINE,)),
        Row("Which executable and which line?", (EXECUTABLES, OPERATIONS)),
        Row("Did it change?", _OVER_TIME),
        Row("What is this measured against?", _MEASURED),
    ),
    variables=("device_kind", "dtype"),
)  # fmt: skip
