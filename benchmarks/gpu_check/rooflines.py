"""One program under `jaxobs.roofline`, beside its closed form and the wall clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.gpu_check.figures import Findings
from benchmarks.gpu_check.timing import seconds_of_one_run

TOLERANCE = 0.05
"""Of times, as the two are measured a second apart on a device whose clock follows its temperature and power."""

TOLERANCE_OF_A_CPU = 1.0
"""Programs are small there, the processor is shared with others, and `jaxobs.roofline` keeps the results of a batch: each
is new memory, whose first touch takes as long again as a copy. Only what is grossly wrong is seen."""


class Program(NamedTuple):
    """What is timed, and what is known of it; `flops` are those of matrix products, 0 where it has none."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    flops: float
    executed: str | None = None
    """The type that the products run in; None where it is not asked."""
    bytes: float | None = None
    bytes_between: tuple[float, float] | None = None
    label: str | None = None
    slack: float = TOLERANCE
    """Of the efficiency: larger where XLA may add passes over memory of its own, which the formula leaves out."""


def judge(told: Findings, program: Program) -> None:
    """Say its figures, or that it cannot run here and why."""
    try:
        _judge(told, program)
    except Exception as error:  # noqa: BLE001  # a type or a library that is not here costs this program alone
        said = " ".join(str(error).split())
        told.unmeasured(program.name, f"{type(error).__name__}: {said[:300]}")


def _judge(told: Findings, program: Program) -> None:
    import jax

    import jaxobs

    inputs = jax.block_until_ready(program.inputs())
    jitted = jax.jit(program.function)
    compiled = jitted.lower(*inputs).compile()
    executable: Any = compiled.runtime_executable()
    module = executable.hlo_modules()[0]
    name = program.name.replace(", ", "-").replace(" ", "_")
    told.evidence(f"modules/{name}.hlo.pb").write_bytes(module.as_serialized_hlo_module_proto())
    # One before and one after: a drift of the clock is in both.
    before = seconds_of_one_run(jitted, inputs)
    found = jaxobs.roofline(jitted, *inputs)
    after = seconds_of_one_run(jitted, inputs)
    wall = (before + after) / 2
    told.keep_json(f"rooflines/{name}.json", found.to_dict() | {"wall_clock": [before, after]})
    told.figure(
        f"{program.name}: time", found.seconds, wall, relative=TOLERANCE if told.on_gpu else TOLERANCE_OF_A_CPU,
        unit="s", source="wall clock of a second of runs",
    )  # fmt: skip
    told.figure(
        f"{program.name}: matrix FLOPs",
        found.cost.matrix_flops,
        program.flops,
        relative=1e-9,
        source="formula",
    )
    if program.bytes is not None:
        told.figure(
            f"{program.name}: bytes",
            found.cost.bytes,
            program.bytes,
            relative=1e-9,
            unit="B",
            source="formula",
        )
    if program.bytes_between is not None:
        told.figure(f"{program.name}: bytes", found.cost.bytes, between=program.bytes_between, unit="B")
    if program.executed is not None:
        told.figure(f"{program.name}: runs in", _types(found), program.executed, source="the type asked for")
    if program.label is not None and found.efficiency is not None:
        told.figure(f"{program.name}: bottleneck", found.bottleneck, program.label)
    _efficiency(told, program, found, wall)
    told.figure(f"{program.name}: not modelled", ", ".join(found.cost.unmodelled) or "nothing", "nothing")


def _efficiency(told: Findings, program: Program, found: Any, wall: float) -> None:
    """Against the bound by hand: for a product its FLOPs over the datasheet's rate, for a copy its bytes."""
    name = f"{program.name}: efficiency"
    slack = program.slack if told.on_gpu else TOLERANCE_OF_A_CPU
    peak = found.peaks.matrix_peak(program.executed) if program.executed else None
    if peak is not None and program.flops:
        told.figure(name, found.efficiency, program.flops / peak.value / wall, relative=slack,
                    source=f"formula, {peak.provenance} peak, wall clock", reason=found.reason)  # fmt: skip
    elif program.bytes is not None and found.peaks.memory is not None:
        told.figure(name, found.efficiency, program.bytes / found.peaks.memory.value / wall, relative=slack,
                    source=f"formula, {found.peaks.memory.provenance} peak, wall clock", reason=found.reason)  # fmt: skip
    else:
        told.figure(name, found.efficiency, reason=found.reason)
    if found.efficiency is not None and told.on_gpu:
        # No device does more than its peak. A softmax or an attention may find its data in the cache.
        told.figure(f"{name} is possible", found.efficiency, between=(0.0, 1.02))


def _types(found: Any) -> str:
    """The types in which its products run on this device."""
    compiled = found.cost.executed_matrix_flops_by_type or found.cost.matrix_flops_by_type
    run = found.peaks.types_run_in(compiled, found.cost.float32_flops_by_precision)
    return ", ".join(sorted(name for name, flops in run.items() if flops)) or "none"
