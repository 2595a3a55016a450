"""Hardware and host: whether devices, host and jaxobs itself are well."""

from __future__ import annotations

from typing import Final

from grafana.source.chart import LABELS_ALONE, Chart, Page, Query, Row
from grafana.source.expressions import (
    DEVICE,
    IN_LOOP,
    ON_DEVICE,
    PROCESS,
    RANK,
    RUN,
    by,
    of_device,
    of_process,
    of_runs,
    rate,
    selected,
)
from grafana.source.look import ANY_IS_BAD, NO_CONTAINER
from grafana.source.pages.accelerators import NCCL, NVIDIA_AND_AMD, TPU

_NO_READING: Final = "No collector reads such a device here."


def _host(metric: str) -> str:
    """Once a host, however many ranks report it."""
    return by("max", "run, host", selected(metric))


def _host_rate(metric: str, *labels: str) -> str:
    return by("max", ", ".join(("run", "host", *labels)), rate(metric))


_SOURCE: Final = f"{PROCESS}, source"

_DEVICES: Final = (
    Chart("Busy, and at work", "Share of time in which the device was busy, beside MFU: a device can be busy all "
          "the time and do little.",
          (Query(of_device("jaxobs_device_utilization_ratio"), DEVICE + " busy"),
           Query(by("avg", "run, loop", selected("jaxobs_mfu_ratio", IN_LOOP)), RUN + " {{loop}} MFU", "B"),
           Query(by("avg", "run, function", selected("jaxobs_executable_efficiency_ratio")),
                 RUN + " {{function}} efficiency", "C")),
          "percentunit", empty=_NO_READING, absence="without such a device"),
    Chart("Clocks", "Clock of the computing units over their highest.",
          (Query(of_device("jaxobs_device_clock_ratio"), DEVICE, smallest=True),), "percentunit", empty=_NO_READING,
          absence="without such a device", maximum=1.0),
    Chart("Held down by", "1 for each reason that holds a device's clocks down.",
          (Query(by("max", f"{PROCESS}, device, reason", selected("jaxobs_device_throttled_info", ON_DEVICE)),
                 DEVICE + " {{reason}}"),),
          "none", empty="Nothing holds the clocks down, or no collector reads such a device here.",
          absence="without such a device", steps=ANY_IS_BAD),
    Chart("Devices", "The devices of each process.",
          (Query(by("max", "run, rank, host, device, device_kind, uuid", selected("jaxobs_device_info", ON_DEVICE)),
                 table=True),),
          "none", "table", empty="No JAX backend was made yet.", transformations=(LABELS_ALONE,)),
)  # fmt: skip

_HOST: Final = (
    Chart("Processors of the host", "Busy share of all of them.",
          (Query(_host("jaxobs_host_cpu_utilization_ratio"), RUN + " {{host}}"),), "percentunit", maximum=1.0),
    Chart("Processors of the training process", "In processors' worth of time, beside how many it may use and its "
          "container's limit.",
          (Query(by("max", PROCESS, rate("jaxobs_process_cpu_seconds_total")), RANK),
           Query(of_process("jaxobs_process_usable_cpus"), RANK + " usable", "B"),
           Query(of_process("jaxobs_cgroup_cpu_limit_cpus"), RANK + " container's limit", "C",
                 optional=NO_CONTAINER),
           Query(_host("jaxobs_host_cpus"), "{{host}} all", "D"))),
    Chart("Held back by the container", "Share of periods in which the container had used up its processor time, and "
          "processors' worth of time held back.",
          (Query(f"{by('max', PROCESS, rate('jaxobs_cgroup_cpu_throttled_periods_total'))} / "
                 f"{by('max', PROCESS, rate('jaxobs_cgroup_cpu_periods_total'))}", RANK + " periods"),
           Query(by("max", PROCESS, rate("jaxobs_cgroup_cpu_throttled_seconds_total")), RANK + " time", "B")),
          "percentunit", empty=NO_CONTAINER, absence="where the host has none"),
    Chart("Network of the host", "Without loopback and RDMA.",
          (Query(_host_rate("jaxobs_host_network_bytes_total", "direction"), RUN + " {{host}} {{direction}}"),), "Bps",
          empty="The host has no network interface but loopback.", absence="where the host has none"),
    Chart("Disks", "Of the host, and what the training process caused.",
          (Query(_host_rate("jaxobs_host_disk_bytes_total", "direction"), RUN + " {{host}} {{direction}}"),
           Query(by("max", f"{PROCESS}, direction", rate("jaxobs_process_disk_bytes_total")), RANK + " {{direction}}",
                 "B")),
          "Bps", empty="The system tells nothing of its disks.", absence="where the host has none"),
    Chart("Threads and files", "Of the training process; at the limit of files the next open fails.",
          (Query(of_process("jaxobs_process_threads"), RANK + " threads"),
           Query(of_process("jaxobs_process_open_files"), RANK + " files", "B"),
           Query(of_process("jaxobs_process_open_files_limit"), RANK + " files' limit", "C"))),
)  # fmt: skip

_ITSELF: Final = (
    Chart("Sources", "1 where a source of jaxobs works, 0 where it failed; absent where there is nothing for it to read.",
          (Query(of_runs(selected("jaxobs_source_up")), RANK + " {{source}}", smallest=True),), "none"),
    Chart("Since a source last worked", "Above a few seconds it is stuck.",
          (Query(f"time() - {by('max', _SOURCE, selected('jaxobs_source_last_success_timestamp_seconds'))}",
                 RANK + " {{source}}"),), "s"),
    Chart("What jaxobs takes", "Processor time of jaxobs, in the job and beside it, and of its sources.",
          (Query(of_runs(rate("jaxobs_agent_cpu_seconds_total")), RANK + " {{where}}"),
           Query(of_runs(rate("jaxobs_source_seconds_total")), RANK + " source {{source}}", "B")), "percentunit"),
    Chart("Memory of jaxobs's agents", "Resident.", (Query(of_process("jaxobs_agent_resident_bytes"), RANK),), "bytes"),
    Chart("Events", "A second, by what became of them, and emitted.",
          (Query(of_runs(rate("jaxobs_events_total")), RANK + " {{outcome}}"),
           Query(of_runs(rate("jaxobs_events_emitted_total")), RANK + " emitted", "B"))),
    Chart("What was lost or refused", "A second: what exporters failed to deliver, updates without a series of their "
          "own, listeners put back.",
          (Query(of_runs(rate("jaxobs_exporter_failures_total")), RANK + " {{exporter}} failures"),
           Query(of_runs(rate("jaxobs_exporter_dropped_total")), RANK + " {{exporter}} dropped", "B"),
           Query(of_runs(rate("jaxobs_otlp_dropped_total")), RANK + " OTLP {{signal}}", "C"),
           Query(of_runs(rate("jaxobs_series_limited_total")), RANK + " {{metric}} limited", "D"),
           Query(of_runs(rate("jaxobs_listener_restored_total")), RANK + " listeners put back", "E")),
          empty="Nothing was lost or refused.", absence="until it happens"),
    Chart("Versions", "Of jaxobs and JAX, and where the agent runs.",
          (Query(by("max", "run, rank, host, version, jax, jaxlib, platform, agent, address",
                    selected("jaxobs_build_info")), table=True),), "none", "table", 24, 6,
          transformations=(LABELS_ALONE,)),
)  # fmt: skip

PAGE: Final = Page(
    "jaxobs-hardware", "JAX / Hardware and host", "Whether devices, host and jaxobs itself are well.",
    (
        Row("Are the devices busy, and is something holding them back?", _DEVICES),
        Row("What do NVIDIA's and AMD's libraries say?", NVIDIA_AND_AMD),
        Row("What does the TPU's library say?", TPU),
        Row("What does NCCL say of the ranks?", NCCL),
        Row("Is the host the limit?", _HOST),
        Row("Is jaxobs itself well, and what does it cost?", _ITSELF),
    ),
)  # fmt: skip
