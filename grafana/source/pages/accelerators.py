"""What the makers' libraries say of their devices, row by row of the dashboard Hardware and host."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from grafana.source.chart import Chart, Override, Query
from grafana.source.expressions import (
    DEVICE,
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

_NO_GPU: Final = "There is no such device here, or its library does not tell."
_NO_TPU: Final = "There is no TPU here, or its library does not tell."
_NAMES: Final = "ABCDEFGH"


def _growth(metric: str, *labels: str) -> str:
    return by("sum", ", ".join((PROCESS, "device", *labels)), rate(metric, ON_DEVICE))


def _chart(
    title: str,
    description: str,
    unit: str,
    lines: Sequence[tuple[str, str]],
    *,
    who: str = DEVICE,
    empty: str = _NO_GPU,
    right: str = "",
) -> Chart:
    """A panel of several expressions, each with what its line is called beside `who`.

    `right`: the name of the query that has an axis of its own.
    """
    queries = tuple(
        Query(expression, f"{who} {name}".rstrip(), letter)
        for letter, (expression, name) in zip(_NAMES, lines, strict=False)
    )
    overrides = (Override(right, {"custom.axisPlacement": "right"}, of_query=True),) if right else ()
    return Chart(
        title, description, queries, unit, empty=empty, absence="without such a device", overrides=overrides
    )


def _power(maker: str) -> str:
    """Watts of a run's devices: once each, though several processes may report the board that they share."""
    return f"sum by (run, run_id) ({by('max', 'run, uuid', rate(f'jaxobs_{maker}_energy_joules_total'))})"


_TOKENS: Final = by("sum", "run", rate("jaxobs_tokens_total"))
ENERGY: Final = Chart(
    "Energy a token", "Joules that the devices of a run take, over the tokens of all its ranks and loops.",
    (Query(f"({_power('nvidia')} or {_power('amd')}) / on (run, run_id) ({_TOKENS} > 0)", RUN),),
    "joule", empty="No device tells its energy, or the loop was not told its tokens.", absence="without such a device",
)  # fmt: skip

NVIDIA_AND_AMD: Final = (
    _chart("Utilisation", "Share of the sample in which any kernel ran, or memory was read or written, however little.",
           "percentunit", (
               (of_device("jaxobs_nvidia_utilization_ratio"), "kernels"),
               (of_device("jaxobs_nvidia_memory_utilization_ratio"), "memory"),
               (of_device("jaxobs_amd_utilization_ratio"), "kernels"),
               (of_device("jaxobs_amd_memory_utilization_ratio"), "memory"))),
    _chart("Power", "Drawn, and the limit in force.", "watt", (
        (of_device("jaxobs_nvidia_power_watts"), ""), (of_device("jaxobs_nvidia_power_limit_watts"), "limit"),
        (of_device("jaxobs_amd_power_watts"), ""), (of_device("jaxobs_amd_power_limit_watts"), "limit"))),
    ENERGY,
    _chart("Clock", "Now, and the highest.", "hertz", (
        (of_device("jaxobs_nvidia_clock_hertz", "clock"), "{{clock}}"),
        (of_device("jaxobs_nvidia_clock_limit_hertz", "clock"), "{{clock}} limit"),
        (of_device("jaxobs_amd_clock_hertz", "clock"), "{{clock}}"),
        (of_device("jaxobs_amd_clock_limit_hertz", "clock"), "{{clock}} limit"))),
    _chart("What holds the clocks down", "1 while it does, and the share of time that it did.", "none", (
        (of_device("jaxobs_nvidia_clocks_event", "reason"), "{{reason}}"),
        (_growth("jaxobs_nvidia_throttled_seconds_total", "reason"), "{{reason}} share"),
        (of_device("jaxobs_amd_throttled", "reason"), "{{reason}}"))),
    _chart("Temperature", "Of each sensor, and where the device slows down or shuts down.", "celsius", (
        (of_device("jaxobs_nvidia_temperature_celsius", "sensor"), "{{sensor}}"),
        (of_device("jaxobs_nvidia_temperature_limit_celsius", "limit"), "{{limit}}"))),
    _chart("Memory by the maker's count", "All processes, this process, the driver, and all there is.", "bytes", (
        (of_device("jaxobs_nvidia_memory_used_bytes"), "used"),
        (of_device("jaxobs_nvidia_process_memory_bytes"), "this process"),
        (of_device("jaxobs_nvidia_memory_reserved_bytes"), "driver"),
        (of_device("jaxobs_nvidia_memory_total_bytes"), "total"),
        (of_device("jaxobs_amd_memory_used_bytes"), "used"),
        (of_device("jaxobs_amd_process_memory_bytes"), "this process"),
        (of_device("jaxobs_amd_memory_total_bytes"), "total"))),
    _chart("PCIe and NVLink", "Bytes a second by direction.", "Bps", (
        (of_device("jaxobs_nvidia_pcie_bytes_per_second", "direction"), "PCIe {{direction}}"),
        (_growth("jaxobs_nvidia_nvlink_bytes_total", "direction"), "NVLink {{direction}}"))),
    _chart("Errors", "Memory errors and Xid errors during the run; at the right the number of the last Xid.", "none", (
        (of_device("jaxobs_nvidia_ecc_errors_total", "kind"), "ECC {{kind}}"),
        (of_device("jaxobs_amd_ecc_errors_total", "kind"), "ECC {{kind}}"),
        (of_device("jaxobs_nvidia_xid_events_total"), "Xid"), (of_device("jaxobs_nvidia_last_xid"), "last Xid")),
        right="D"),
    _chart("Is the board well?", "Whether it answers, which rows of its memory were replaced, and whether one could not "
           "be: then change the board.", "none", (
               (of_device("jaxobs_nvidia_device_up"), "answers"),
               (of_device("jaxobs_nvidia_remapped_rows", "cause"), "rows replaced, {{cause}}"),
               (of_device("jaxobs_nvidia_row_remap_pending"), "replacement pending"),
               (of_device("jaxobs_nvidia_row_remap_failure"), "replacement failed"),
               (of_device("jaxobs_nvidia_device_info", "board", "name"), "{{name}} {{board}}"))),
)  # fmt: skip


_tpu: Final = partial(_chart, who=RANK, empty=_NO_TPU)

TPU: Final = (
    _tpu("TPU utilisation", "Time in which the chip executed, its TensorCores, its memory's bandwidth.", "percentunit", (
        (of_process("jaxobs_tpu_duty_cycle_ratio", "chip"), "chip {{chip}} duty cycle"),
        (of_process("jaxobs_tpu_tensorcore_utilization_ratio", "core"), "core {{core}} TensorCore"),
        (of_process("jaxobs_tpu_memory_bandwidth_ratio", "chip"), "chip {{chip}} bandwidth"))),
    _tpu("TPU memory", "Allocated, and all there is.", "bytes", (
        (of_process("jaxobs_tpu_memory_used_bytes", "chip"), "chip {{chip}} used"),
        (of_process("jaxobs_tpu_memory_total_bytes", "chip"), "chip {{chip}} total"))),
    _tpu("TPU held back", "Share by which each chip is slowed down.", "percentunit", (
        (of_process("jaxobs_tpu_throttled_ratio", "chip"), "chip {{chip}}"),)),
    _tpu("TPU queue and links", "Programs that wait, and the health of links: 0 is well, 10 not usable.", "none", (
        (of_process("jaxobs_tpu_queued_programs", "core"), "core {{core}} queued"),
        (of_process("jaxobs_tpu_link_health", "link"), "link {{link}}"))),
)  # fmt: skip


def _of_member(metric: str) -> str:
    """Of each member of a communicator, with its host as NCCL says it, not that of the process that asked NCCL."""
    return f"max by (run, run_id, communicator, member, host, pid) ({of_runs(selected(metric), 'run')})"


_member: Final = partial(
    _chart, who=RUN, empty="NCCL tells nothing here: one GPU, a version before 2.28.7, or RAS is off."
)

NCCL: Final = (
    _member("Ranks that NCCL misses", "Members of a communicator that do not answer NCCL, of how many.", "none", (
        (by("max", "run, communicator", selected("jaxobs_nccl_missing_ranks")), "{{communicator}} missing"),
        (by("max", "run, communicator", selected("jaxobs_nccl_ranks")), "{{communicator}} ranks"),
        (_of_member("jaxobs_nccl_missing_info"), "rank {{member}} on {{host}}, process {{pid}}"))),
    _member("Ranks behind in collectives", "By how many: where nothing goes on, these hold the others up.", "none", (
        (_of_member("jaxobs_nccl_operations_behind"), "rank {{member}} on {{host}}, process {{pid}}"),)),
    _member("Collectives", "A second, as the rank furthest ahead has begun them.", "ops", (
        (by("sum", "run, communicator", rate("jaxobs_nccl_operations_total")), "{{communicator}}"),)),
)  # fmt: skip
