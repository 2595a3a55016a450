"""Measures the peaks of the default JAX device, as a process: `python -m jaxobs.measure.calibration SECONDS`.

Never inside a training process. It writes the result as one line of JSON, the last of its standard output.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count, repeat
from pathlib import Path

import jax
import jaxlib.version

from jaxobs.cost_model import module_cost
from jaxobs.hardware.calibration import Calibration, LeftOut, Rate, processor_model, usable_cores
from jaxobs.measure.calibration_programs import Program, programs
from jaxobs.model.clock import NANOSECONDS, perf_counter, process_time, wall_now

_IDLE_COLUMNS = (3, 4, 8, 9)
"""Columns of /proc/stat (proc_stat(5)) that are not busy time, or would count it twice: idle, waiting for a device, and
the time of guests, which is included in the user's."""


_BLOCK_SECONDS = 0.02
"""Least length of a sample, which is the median of the calls in it: a few slices of the scheduler's time."""

_MIN_CALLS = 3

_LONG_BLOCK_SECONDS = 0.1
"""Length at which a sample is complete with any number of calls."""

_MAX_CALL = 0.05
"""Share of the budget: a program whose single call is expected to take more is left out."""

_COMPILE_THREADS = 2

_KEPT_BYTES = 128 * 2**20
"""Bytes of data up to which a program's data is kept; larger data is made anew for each round, to save memory."""


def seconds_of_others(statistics: Path = Path("/proc/stat")) -> float | None:
    """Processor time that other processes have used; None where this one may use only some of the host's cores."""
    try:
        lines = statistics.read_text(encoding="utf-8").splitlines()
        ticks = [int(word) for word in lines[0].split()[1:]]
    except (OSError, ValueError, IndexError):
        return None
    cores = sum(line.startswith("cpu") for line in lines) - 1
    if len(os.sched_getaffinity(0)) != cores:
        return None
    busy = sum(value for column, value in enumerate(ticks) if column not in _IDLE_COLUMNS)
    return busy / os.sysconf("SC_CLK_TCK") - process_time()


@dataclass(slots=True)
class _Timed:
    program: Program
    rates: list[float] = field(default_factory=list)
    run: Callable[[], None] | None = None


def calibrate(seconds: float, chosen: Iterable[Program] | None = None) -> Calibration:
    """Measure for about that long: at least one round of every program that the device can run.

    Each program is timed in blocks spread over the whole time, so that a moment in which the machine is busy
    with something else spoils one block of it and not all. A rate is the fastest block's median.

    Args:
        seconds: The time to take, s; compiling and the first round may take longer.
        chosen: Programs to time instead of all those for the default backend.
    """
    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
    start, others_before = perf_counter(), seconds_of_others()
    device = jax.devices()[0]
    every = [_Timed(program) for program in (programs(device.platform) if chosen is None else chosen)]
    ready, left_out = _compiled(every, _MAX_CALL * seconds)
    _rounds(ready, start + seconds)
    took, other_load = perf_counter() - start, None
    if (others := seconds_of_others()) is not None and others_before is not None:
        other_load = max(0.0, (others - others_before) / took)
    return Calibration(
        device_kind=device.device_kind,
        platform=device.platform,
        processor=processor_model(),
        cores=usable_cores(),
        jax=jax.__version__,
        jaxlib=jaxlib.version.__version__,
        created=wall_now() / NANOSECONDS,
        seconds=took,
        matrix=_rates(ready, "matrix"),
        vector=_rates(ready, "vector"),
        transcendentals=_rates(ready, "transcendentals"),
        memory=_rates(ready, "memory"),
        other_load=other_load,
        left_out=tuple(left_out),
    )


def _compiled(every: list[_Timed], longest: float) -> tuple[list[_Timed], list[LeftOut]]:
    """Compile, two kinds at a time, the programs that the device can run in reasonable time.

    Return these, and the element types that the device has no product of its own for.
    """
    kinds: dict[tuple[str, str], list[_Timed]] = defaultdict(list)
    for timed in every:
        kinds[timed.program.group, timed.program.dtype].append(timed)
    with ThreadPoolExecutor(_COMPILE_THREADS) as pool:
        missing = pool.map(_compile_kind, kinds.values(), repeat(longest))
        left_out = {found.dtype: found for found in missing if found is not None}
    return [timed for timed in every if timed.run is not None], [left_out[name] for name in sorted(left_out)]


def _compile_kind(kind: list[_Timed], longest: float) -> LeftOut | None:
    """Compile and run the programs of one kind by growing size, up to the longest call allowed.

    Programs that the compiler runs in another type are left out. That may depend on the size: XLA's
    `onednn_matmul_rewriter.cc` keeps bfloat16 in products of 2**23 multiply-adds and more. If every size is left out,
    the reason is returned.
    """
    missing: LeftOut | None = None
    rate = float("inf")
    for timed in kind:
        if timed.program.work / rate > longest:
            break
        if (other := _not_its_own(timed.program)) is not None:
            missing = other
            continue
        try:
            run = timed.program.prepare()
            run()
            before = perf_counter()
            run()
            rate = timed.program.work / (perf_counter() - before)
        except (RuntimeError, MemoryError):  # no such arithmetic on this backend, or too little memory for it
            continue
        timed.run = run
    return missing if all(timed.run is None for timed in kind) else None


def _not_its_own(program: Program) -> LeftOut | None:
    """Why a program does not run in its own element type, whose peak its rate is not then; None if it does."""
    if program.compiled is None:
        return None
    try:
        modules = program.compiled().runtime_executable().hlo_modules()
        cost = module_cost(modules[0].as_serialized_hlo_module_proto()).cost
        found = set(cost.executed_matrix_flops_by_type)
    except Exception:  # noqa: BLE001  # the module of some other backend must not end the whole measurement
        reason = "has no product here: the compiler refuses it, or its module cannot be read"
        return LeftOut(program.dtype, None, reason)
    if found == {program.dtype}:
        return None
    runs_as = found.pop() if len(found) == 1 else None
    return LeftOut(program.dtype, runs_as, f"runs as {runs_as or 'an unknown type'} here: no peak of its own")


def _rounds(ready: list[_Timed], until: float) -> None:
    """Time the programs again and again until then, but each of them once."""
    for number in count(1) if ready else ():
        for timed in ready:
            if number > 1 and perf_counter() >= until:
                return
            _block(timed)


def _block(timed: _Timed) -> None:
    """Add one sample: the rate by the median time of a short run of calls."""
    run = timed.run
    if run is None:
        run = timed.program.prepare()
        run()
    calls: list[float] = []
    start = before = perf_counter()
    while before - start < (_BLOCK_SECONDS if len(calls) >= _MIN_CALLS else _LONG_BLOCK_SECONDS):
        run()
        after = perf_counter()
        calls.append(after - before)
        before = after
    timed.rates.append(timed.program.work / statistics.median(calls))
    timed.run = None if timed.program.group == "memory" and timed.program.size > _KEPT_BYTES else run


def _rates(every: list[_Timed], group: str) -> tuple[Rate, ...]:
    return tuple(
        Rate(timed.program.dtype, timed.program.size, max(timed.rates))
        for timed in every
        if timed.program.group == group and timed.rates
    )


if __name__ == "__main__":
    # A line of its own, whatever was printed before.
    sys.stdout.write("\n" + json.dumps(calibrate(float(sys.argv[1])).to_dict(), allow_nan=False) + "\n")
