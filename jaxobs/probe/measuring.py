"""`jaxobs.cost()` and `jaxobs.roofline()`: the cost model and the roofline for one function, on demand.

These compile and run what they are given: they are for a notebook or a test, not for the inside of a training step.
"""

from __future__ import annotations

import importlib.metadata
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxobs.config import load_settings
from jaxobs.cost_model import module_cost
from jaxobs.derive.bottleneck import Verdict, of_executable
from jaxobs.derive.roofline import Bound, bound_time, efficiency, total_bound
from jaxobs.model.cost import Cost, ModuleCost
from jaxobs.model.hardware import Peaks
from jaxobs.model.known_peaks import known_peaks

WARM_UP = 3
LEAST_BATCH_SECONDS = 0.005
"""Calls are timed in batches of at least this long, blocked once at the end: one call alone would time its dispatch."""

MEASURE_SECONDS = 1.0
LEAST_BATCHES, MOST_BATCHES = 5, 200


@dataclass(frozen=True, slots=True)
class Roofline:
    """How near a program came to the roof of its device. An absent value is None, and `reason` says why.

    `seconds` is the median time of one run and `spread_seconds` the distance between its quartiles. `efficiency` is
    bound time over measured time; above 1 the data stayed in cache, and `bound` says `cache_resident`.
    """

    cost: Cost
    seconds: float
    spread_seconds: float | None
    achieved_flops_per_second: float | None
    attainable_flops_per_second: float | None
    efficiency: float | None
    bound: str | None
    bottleneck: str
    confidence: float
    runner_up: str | None
    device: str
    peaks: Peaks
    reason: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "cost": self.cost.to_dict(),
            "seconds": self.seconds,
            "spread_seconds": self.spread_seconds,
            "achieved_flops_per_second": self.achieved_flops_per_second,
            "attainable_flops_per_second": self.attainable_flops_per_second,
            "efficiency": self.efficiency,
            "bound": self.bound,
            "bottleneck": self.bottleneck,
            "confidence": self.confidence,
            "runner_up": self.runner_up,
            "device": self.device,
            "peaks": self.peaks.to_dict(),
            "reason": self.reason,
        }


def cost(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Cost:
    """What one run of the compiled function must do on one device.

    `function` may be jitted or plain; it is compiled for these arguments (arrays or `jax.ShapeDtypeStruct`), not run.
    Raises what tracing and compiling raise, and HloDecodeError (a ValueError) where the backend gives no module.
    """
    return _module(_compiled(function, args, kwargs)).cost


def roofline(
    function: Callable[..., Any] | None = None,
    /,
    *args: Any,
    flops: float | None = None,
    bytes: float | None = None,  # noqa: A002  # the field's word, and the public name of the figure
    seconds: float | None = None,
    samples_per_second: float | None = None,
    dtype: str = "float32",
    **kwargs: Any,
) -> Roofline:
    """Time a function on the default device and set the time against the roofline.

    The function is compiled for these arguments, warmed up, and run in batches, each blocked until its results are
    ready; arguments that it donates are copied for each run, outside the time.

    Without a function, from numbers alone: matrix `flops` of element type `dtype` and device-memory `bytes` of one run
    in `seconds`; or of one sample, with the rate `samples_per_second`. Raises ValueError where these do not suffice.
    """
    import jax

    if function is None:
        if args or kwargs:
            raise ValueError(f"roofline() without a function takes numbers only, not {[*args, *kwargs]!r}")
        work, elapsed = _from_numbers(flops, bytes, seconds, samples_per_second, dtype)
        device = jax.devices()[0]
        peaks = _peaks(device)
        return _report(work, bound_time(work, peaks), elapsed, None, 1, device.device_kind, peaks)
    given = {"flops": flops, "bytes": bytes, "seconds": seconds, "samples_per_second": samples_per_second}
    kwargs |= {
        name: value for name, value in given.items() if value is not None
    }  # the function's own arguments
    compiled = _compiled(function, args, kwargs)
    module = _module(compiled)
    device = jax.devices()[0]
    peaks = _peaks(device)
    times = _time(compiled, args, kwargs)
    median = statistics.median(times)
    quartiles = statistics.quantiles(times, n=4) if len(times) > 1 else [median, median, median]
    bound = total_bound(
        bound_time(operation.cost, peaks, _working_set(compiled)) for operation in module.operations
    )
    return _report(
        module.cost, bound, median, quartiles[2] - quartiles[0], len(times), device.device_kind, peaks
    )


def _compiled(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import jax

    jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
    return jitted.lower(*args, **kwargs).compile()


def _module(compiled: Any) -> ModuleCost:
    modules = compiled.runtime_executable().hlo_modules()
    return module_cost(modules[0].as_serialized_hlo_module_proto())


def _working_set(compiled: Any) -> float | None:
    memory = compiled.memory_analysis()
    if memory is None:
        return None
    touched = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return float(touched - memory.alias_size_in_bytes)


def _time(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[float]:
    """Seconds of one run, from each batch."""
    import jax
    import jax.numpy as jnp

    wait: Callable[[Any], Any] = jax.block_until_ready
    donated = any(getattr(leaf, "donated", False) for leaf in jax.tree_util.tree_leaves(compiled.args_info))

    def copies() -> tuple[Any, Any]:
        if not donated:
            return args, kwargs
        fresh: tuple[Any, Any] = wait(jax.tree_util.tree_map(jnp.array, (args, kwargs)))
        return fresh

    def batch(size: int) -> float:
        prepared = [copies() for _ in range(size)]
        started = time.perf_counter()
        results = [compiled(*positional, **named) for positional, named in prepared]
        wait(results)
        return (time.perf_counter() - started) / size

    single = min(batch(1) for _ in range(WARM_UP))
    # Results of a batch are alive together, so a batch is short.
    size = max(1, min(100, round(LEAST_BATCH_SECONDS / max(single, 1e-7))))
    wanted = round(MEASURE_SECONDS / max(single * size, 1e-6))
    return [batch(size) for _ in range(max(LEAST_BATCHES, min(MOST_BATCHES, wanted)))]


def _from_numbers(
    flops: float | None, moved: float | None, seconds: float | None, rate: float | None, dtype: str
) -> tuple[Cost, float]:
    if (seconds is None) == (rate is None):
        raise ValueError("roofline() from numbers takes either seconds= (of one run) or samples_per_second=")
    elapsed = seconds if seconds is not None else 1.0 / rate if rate else 0.0
    named = {"flops": flops, "bytes": moved, "seconds": elapsed}
    for name, value in named.items():
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(f"roofline(): {name} must be a positive, finite number, not {value}")
    if flops is None and moved is None:
        raise ValueError("roofline() from numbers needs flops=, bytes=, or both")
    matrix = {dtype: float(flops)} if flops is not None else {}
    return Cost(matrix_flops_by_type=matrix, bytes=float(moved or 0.0)), elapsed


def _peaks(device: Any) -> Peaks:
    settings = load_settings().model_dump(mode="json")
    return known_peaks(device.device_kind, device.platform, importlib.metadata.version("jaxlib"), settings)


def _report(
    work: Cost, bound: Bound, seconds: float, spread: float | None, samples: int, device: str, peaks: Peaks
) -> Roofline:
    near = efficiency(bound, seconds)
    verdict: Verdict = of_executable(bound, seconds, samples)
    flops = work.flops
    return Roofline(
        cost=work,
        seconds=seconds,
        spread_seconds=spread,
        achieved_flops_per_second=flops / seconds if flops > 0 else None,
        attainable_flops_per_second=flops / bound.seconds if flops > 0 and bound.seconds else None,
        efficiency=near.value,
        bound=near.limit,
        bottleneck=verdict.label,
        confidence=verdict.confidence,
        runner_up=verdict.runner_up,
        device=device,
        peaks=peaks,
        reason=near.reason or (peaks.reason if bound.seconds is None else None),
    )
