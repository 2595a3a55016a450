"""Advice on what the device computes and holds: batches, element types, clocks, memory."""

from __future__ import annotations

from collections.abc import Iterator

from jaxobs.derive.advice.facts import Facts, Finding, dearest
from jaxobs.derive.memory import ProcessMemory
from jaxobs.vocabulary.units import byte_size, duration, rough_percent

SPEED = {"compute": "FLOP/s", "memory": "memory bandwidth"}


def small_batch(facts: Facts) -> Iterator[Finding]:
    """An executable is bound by memory, and most of what it moves is state that does not grow with the batch.

    When: it has a backward pass, at least half of its FLOPs are matrix products, its intensity is below the ridge (peak
    FLOP/s over peak bytes/s), and reading and writing donated arguments is at least a quarter of its bytes.
    Gives back: half of that quarter or more.
    Why so: twice the batch moves the state once for twice the examples. Only what a training step is donated is known not
    to grow with the batch, as the cache of a decoder does. Element-by-element work gains nothing from a larger batch.
    Donated arguments of more bytes than are moved are only read in part, as a table is.
    """
    for work in facts.work:
        cost, executed = work.cost, work.cost.executed_matrix_flops_by_type
        peak = facts.matrix_peaks.get(max(executed, key=executed.__getitem__, default=""))
        trains = work.view.executable.value in facts.view.with_gradients and work.is_bound_by("memory")
        if not (trains and cost.bytes and cost.flops and peak and facts.memory_peak):
            continue
        state = 2 * (work.view.memory.value or {}).get("alias", 0.0) / cost.bytes
        ridge, intensity = peak / facts.memory_peak, cost.flops / cost.bytes
        if cost.matrix_flops >= 0.5 * cost.flops and 0.25 <= state <= 1 and intensity < ridge:
            yield Finding(
                work.subject,
                f"`{work.view.function}` does {intensity:.3g} FLOP for each byte of device memory, the device "
                f"could do {ridge:.3g}: the batch is too small, {rough_percent(state)} of the bytes are state that does "
                "not grow with it",
                "take a larger batch where memory and the training recipe allow it, or update the state once for "
                "several micro-batches",
                work.view.bottleneck.confidence,
                work.share * state / 2,
            )


def slow_element_type(facts: Facts) -> Iterator[Finding]:
    """A function multiplies in float32, on a device that is faster in bfloat16.

    When: an executable is bound by compute and has products that are written in float32 and run in it, and the
    device's bfloat16 peak is at least 1.25 times the faster of its float32 and TensorFloat-32 peaks.
    Gives back: the least time those products can take, less what they would take in bfloat16.
    Why so: products asked for in float32 may run as TensorFloat-32 already; casts take what a smaller factor gives back.
    """
    full, tensor = facts.matrix_peaks.get("float32"), facts.matrix_peaks.get("tensorfloat32", 0.0)
    single, half = max(full or 0.0, tensor), facts.matrix_peaks.get("bfloat16", 0.0)
    if full is None or half < 1.25 * single:
        return
    for work in facts.work:
        executed = work.cost.executed_matrix_flops_by_type
        run = executed.get("float32", 0.0) + executed.get("tensorfloat32", 0.0)
        amount = min(run, work.cost.matrix_flops_by_type.get("float32", 0.0))  # XLA widens some for a CPU
        if amount and work.is_bound_by("compute"):
            line = dearest(facts, "compute", (work.view.executable.value,))
            yield Finding(
                work.subject,
                f"`{work.view.function}` multiplies in float32 ({rough_percent(amount / sum(executed.values()))} of its "
                f"matrix FLOPs{line}); the device's matrix unit is {half / single:.2g} times as fast in bfloat16",
                "compute products in bfloat16 and keep the parameters in float32",
                work.view.bottleneck.confidence,
                work.share * min(1.0, amount / single / work.seconds) * (1 - single / half),
            )


def throttled_device(facts: Facts) -> Iterator[Finding]:
    """Something holds the clocks of a busy device down.

    When: on average over the last half minute to less than 0.9 of the highest, and a loop's time is bound by compute
    (if by memory: the memory's clock). Of several devices the one that loses most is named.
    Gives back: the part of that time that the clock at 0.9 of its highest would not take.
    Why so: peaks are reached a little below the highest clock: an H100 SXM's at 0.92 of it.
    """
    for device in facts.view.devices.value or ():
        if (clocks := device.clocks.value) is None:
            continue
        gained, lost = 0.0, []
        for word, clock, taken, now in (
            ("compute", "clock", clocks.compute_taken_ratio.value, clocks.clock_ratio.value),
            ("memory", "memory clock", clocks.memory_taken_ratio.value, clocks.memory_clock_ratio.value),
        ):
            share = sum(loop.share(word) for loop in facts.loops)
            if taken and share:
                gained += share * taken
                at = f" ({clock} now at {now:.2f} of its highest)" if now else ""
                lost.append(f"{rough_percent(taken)} of its {SPEED[word]}{at}")
        if not gained:
            continue
        reasons = clocks.throttle_reasons.value
        held = f": held down by {', '.join(reasons)}" if reasons else ""
        yield Finding(
            {"device": str(device.device)},
            f"low clocks took device {device.device} {' and '.join(lost)} in the last half minute{held}",
            "where it is heat, look at its cooling and at what runs beside it; where it is power, raise its power limit "
            "if that is set below what the board allows; where it is a clock that somebody set, reset it",
            min(loop.confidence for loop in facts.loops),
            min(1.0, gained),
        )


def memory_exhaustion(facts: Facts) -> Iterator[Finding]:
    """Memory in use grows steadily and will reach its limit.

    When: memory of a device, or of the process, has grown steadily for at least three minutes and is full within a day
    if that goes on.
    Gives back: the rest of the run.
    Why so: the test for a trend is strict (one series in 740 passes it by chance), and growth that levels off is none.
    """
    places: list[tuple[dict[str, str], str, ProcessMemory | None]] = [
        ({"device": str(device.device)}, f"device {device.device}", device.memory.value)
        for device in facts.view.devices.value or ()
    ]
    process, live = facts.view.process, facts.view.process.live_arrays.value
    made_at = [row["line"] for row in (live.lines.value if live else None) or () if row.get("line")]
    lines = ", ".join(made_at[:2])
    for subject, what, memory in (*places, ({}, "the training process", process.memory.value)):
        left = memory.forecast_seconds.value if memory else None
        growth = memory.growth_bytes_per_second.value if memory else None
        if left is not None and left <= 86_400 and growth:
            yield Finding(
                subject,
                f"the memory of {what} grows by {byte_size(growth * 60)} a minute and is full in {duration(left)}"
                + (f"; most of the live arrays were made at {lines}" if subject and lines else ""),
                "keep nothing that grows from turn to turn: read results as numbers (`float(loss)`) before they go into "
                "a list, and let go of arrays that are not used again",
                seconds_left=left,
            )


def donation(facts: Facts) -> Iterator[Finding]:
    """Arguments and outputs of the same shapes are held side by side.

    When: an executable that ran at least twice has outputs that could take over arguments of the same shape and type,
    of at least 1 % of the device's memory, or 64 MiB if its size is not known.
    Gives back: bytes, not seconds.
    Why so: less is lost in the allocator's own rounding.
    """
    devices = facts.view.devices.value
    memory, peaks = (devices[0].memory.value, devices[0].peaks.value) if devices else (None, None)
    limit = (memory and memory.limit_bytes.value) or (peaks and peaks.memory_capacity)
    least = max(1.0, 0.01 * limit) if limit else 64 * 2**20
    for executable in facts.view.executables:
        function, saved = executable.function, executable.donatable_bytes.value
        if (executable.runs.value or 0) < 2 or saved is None or saved < least:
            continue
        share = f" ({rough_percent(saved / limit)} of its memory)" if limit else ""
        yield Finding(
            {"function": function, "executable": executable.executable.value or ""},
            f"`{function}` holds arguments and outputs of the same shapes side by side: donating them would give back up "
            f"to {byte_size(saved)} a device{share}",
            "`jax.jit(…, donate_argnums=…)` for arguments that the caller does not use again"
            + (", such as the training state" if facts.is_training else ""),
            saves_bytes=saved,
        )
