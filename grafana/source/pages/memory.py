"""Memory: what holds the devices' memory and the process's, and when it will run out."""

from __future__ import annotations

from typing import Final

from grafana.source.chart import Chart, Page, Query, Row, one_column, sorted_by
from grafana.source.expressions import DEVICE, RANK, RUN, by, of_device, of_process, of_runs, rate, selected
from grafana.source.look import FILLED, NO_CONTAINER

_NO_ALLOCATOR: Final = "The devices report no memory: CPUs have no allocator of their own."
_STEADY: Final = "Memory does not grow steadily: no end is in sight."
_NO_ARRAYS: Final = "The arrays were not listed yet."


_DEVICES: Final = (
    Chart("Share in use", "Memory that JAX's allocator has given out, over what it may give out.",
          (Query(f"{of_device('jaxobs_device_memory_in_use_bytes')} / {of_device('jaxobs_device_memory_limit_bytes')}",
                 DEVICE),),
          "percentunit", empty=_NO_ALLOCATOR, absence="without such a device", maximum=1.0, steps=FILLED),
    Chart("In use, peak and limit", "By device.",
          (Query(of_device("jaxobs_device_memory_in_use_bytes"), DEVICE + " in use"),
           Query(of_device("jaxobs_device_memory_peak_bytes"), DEVICE + " peak", "B"),
           Query(of_device("jaxobs_device_memory_limit_bytes"), DEVICE + " limit", "C")),
          "bytes", empty=_NO_ALLOCATOR, absence="without such a device"),
    Chart("Fragmentation", "Free memory outside the largest free block, and that block: no array can be larger.",
          (Query(of_device("jaxobs_device_memory_fragmented_bytes"), DEVICE + " fragmented"),
           Query(of_device("jaxobs_device_memory_largest_free_bytes"), DEVICE + " largest free", "B", smallest=True)),
          "bytes", empty=_NO_ALLOCATOR, absence="without such a device"),
    Chart("Until device memory is full", "If it goes on growing as it does now; nothing where it does not.",
          (Query(of_device("jaxobs_device_memory_exhaustion_seconds"), DEVICE, smallest=True),),
          "s", empty=_STEADY, absence="without such a device"),
)  # fmt: skip

_HOLDERS: Final = (
    Chart("Live arrays by line", "Bytes of arrays alive, by the line of the program that made them, over all ranks.",
          (Query(by("sum", "run, line", selected("jaxobs_live_arrays_line_bytes")), RUN + " {{line}}"),),
          "bytes", stacked=True, empty=_NO_ARRAYS),
    Chart("Live arrays by shape", "The largest groups over all ranks; growth of one group is a leak.",
          (Query(by("sum", "run, shape, dtype", selected("jaxobs_live_arrays_bytes")), RUN + " {{dtype}}[{{shape}}]"),),
          "bytes", stacked=True, empty=_NO_ARRAYS),
    Chart("Number of live arrays", "Over all ranks.",
          (Query(by("sum", "run", selected("jaxobs_live_arrays")), RUN),), empty=_NO_ARRAYS),
    Chart("What executables need", "XLA's analysis of one run on one device: arguments, outputs, temporaries.",
          (Query(by("max", "run, function, executable, kind", selected("jaxobs_executable_memory_bytes")) + " > 0",
                 table=True),),
          "bytes", "table", empty="Nothing was compiled yet.",
          transformations=(one_column("bytes"), sorted_by("bytes", desc=True))),
    Chart("Largest buffers at the peak", "Of the executable that needs the most memory, on one device.",
          (Query(by("max", "run, function, kind, operation, dtype, shape",
                    selected("jaxobs_executable_peak_buffer_bytes")), table=True),),
          "bytes", "table", empty="Nothing was compiled yet, or the compiler does not tell its buffers.",
          transformations=(one_column("bytes"), sorted_by("bytes", desc=True))),
)  # fmt: skip

_HOST: Final = (
    Chart("Memory of the training process", "Resident, its peak, and what it may have: its container's or the host's.",
          (Query(of_process("jaxobs_process_resident_bytes"), RANK + " resident"),
           Query(of_process("jaxobs_process_memory_peak_bytes"), RANK + " peak", "B"),
           Query(of_process("jaxobs_process_memory_limit_bytes"), RANK + " limit", "C")),
          "bytes"),
    Chart("Until the process is out of memory", "If it goes on growing as it does now; nothing where it does not.",
          (Query(of_process("jaxobs_process_memory_exhaustion_seconds"), RANK, smallest=True),),
          "s", empty=_STEADY, absence="until it happens"),
    Chart("Memory of the container", "The page cache counts; beyond the limit the kernel kills.",
          (Query(of_process("jaxobs_cgroup_memory_used_bytes"), RANK + " used"),
           Query(of_process("jaxobs_cgroup_memory_limit_bytes"), RANK + " limit", "B")),
          "bytes", empty=NO_CONTAINER, absence="where the host has none"),
    Chart("Memory of the host", "What it can give without swapping, all of it, and what lies on disk.",
          (Query(by("min", "run, host", selected("jaxobs_host_memory_available_bytes")), "{{host}} available"),
           Query(by("max", "run, host", selected("jaxobs_host_memory_total_bytes")), "{{host}} total", "B"),
           Query(by("max", "run, host", selected("jaxobs_host_swap_used_bytes")), "{{host}} swapped", "C")),
          "bytes"),
    Chart("Python's garbage collection", "Passes a second by the oldest generation they went through.",
          (Query(of_runs(rate("jaxobs_garbage_collections_total")), RANK + " generation {{generation}}"),)),
)  # fmt: skip

PAGE: Final = Page(
    "jaxobs-memory", "JAX / Memory", "What holds the memory of devices and processes, and when it will run out.",
    (
        Row("Will the devices run out?", _DEVICES),
        Row("What holds the memory?", _HOLDERS),
        Row("Will the host run out?", _HOST),
    ),
)  # fmt: skip
