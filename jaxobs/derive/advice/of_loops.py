"""Advice on a loop as a whole: where its wall time goes while the device waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jaxobs.derive.advice.facts import LARGEST, Facts, LoopFacts, WindowFacts
from jaxobs.derive.advice.finding import Finding
from jaxobs.report.units import duration, percent, rough_percent

LEAST_HOST = 0.1
"""`host` is part of what nothing else explains, so it bears the errors of every other component: sampled device times are
known to within 5 %. At twice that it cannot be error alone."""

LINES = 2
"""Lines of the main thread in a sentence."""

MOST_UNTIMED = 0.05
"""Share of time that may be `unknown` beside executables that were timed: the error of sampled device times. Where more
of the device's work is not known, it may lie beneath the wait, and loading ahead would give nothing back."""

SMALL_OPERATION = 50e-6
"""Seconds. Launching a kernel takes 2 to 10 µs; an operation that takes five times as long is no small one."""

MANY_OPERATIONS = 20
"""In a step. Launching so many takes about 0.1 ms; fewer are not worth a change of the program."""

LEAST_SHOWN = 0.0005
"""Share of the time: below it a part of `latency` is not worth its place in a sentence."""

REST_OF_LATENCY = 0.9
"""Time is charged to `latency` where it is more than ten times what the work must take, so nine tenths of it or more are
not the work's."""


def input_wait(facts: Facts) -> Iterator[Finding]:
    """What is loaded ahead overlaps with the rest of the step, so the shorter of the two is given back."""
    for loop, waiting in _waiting(facts):
        yield Finding(
            loop.subject,
            f"{loop.title} waits for its input {_amount(loop, waiting)}{_lines(loop)}",
            "load and transfer the next batches on a background thread while this one is computed",
            loop.confidence,
            loop.part * min(waiting, 1 - waiting),
        )


def slow_loader(facts: Facts) -> Iterator[Finding]:
    """A loader that takes longer than the rest of the step is the limit also where it runs ahead."""
    for loop, waiting in _waiting(facts):
        if waiting <= 1 - waiting:
            continue
        enough = (
            f" ({duration((1 - waiting) * loop.step_seconds)} a batch)"
            if loop.step_seconds and _is_steady(loop)
            else ""
        )
        yield Finding(
            loop.subject,
            f"the loader of {loop.title} takes longer than the rest of the step, which waits for it "
            f"{_amount(loop, waiting)}",
            "make the loader faster: more workers or processes, cheaper decoding and augmentation, batches that are "
            f"prepared once and kept; at the speed of the rest of the step{enough} and ahead of it, it costs nothing",
            loop.confidence,
            loop.part * waiting,
        )


def _waiting(facts: Facts) -> Iterator[tuple[LoopFacts, float]]:
    """Loops that wait for their input, and the share of their time, where little of the device's work is unknown."""
    for loop in facts.loops:
        waiting = loop.shares.get("input")
        untimed = loop.untimed * loop.part - facts.timed_unknown
        if waiting and untimed <= MOST_UNTIMED:
            yield loop, waiting


def host_work(facts: Facts) -> Iterator[Finding]:
    """The host's work beside the device's, instead of between: the shorter of the two is given back."""
    for loop in facts.loops:
        busy = loop.shares.get("host")
        if busy is None or busy < LEAST_HOST or (loop.host_is_ahead and busy < max(loop.shares.values())):
            continue
        yield Finding(
            loop.subject,
            f"in {loop.title} the device is idle while the host is busy {_amount(loop, busy)}{_lines(loop)}",
            "let the host run ahead: read losses and metrics some steps later, not each step "
            "(`float(loss)` and `print(loss)` wait for the device), and move Python work into the jitted function",
            loop.confidence,
            loop.part * min(busy, 1 - busy),
        )


def exposed_communication(facts: Facts) -> Iterator[Finding]:
    """Communication that overlaps with computing costs nothing: the shorter of the two is given back."""
    for loop in facts.loops:
        exposed = loop.shares.get("communication")
        if not exposed or loop.window is None:
            continue
        yield Finding(
            loop.subject,
            f"in {loop.title} the devices wait for collectives {_amount(loop, exposed)}",
            "let them overlap with computing (on GPUs XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true), or send "
            "less: reduce gradients in bfloat16, accumulate them over micro-batches, or take a larger batch",
            loop.confidence,
            loop.part * min(exposed, 1 - exposed),
        )


def small_operations(facts: Facts) -> Iterator[Finding]:
    """The time that goes to launching and waiting: in operations and between them, which together are all of it."""
    mix = _mix(facts)
    if mix is None:
        return
    for loop in facts.loops:
        lost, window = loop.shares.get("latency"), loop.window
        if not lost or window is None or window.latency <= 0 or mix.small * window.busy < MANY_OPERATIONS:
            continue
        yield Finding(
            loop.subject,
            f"{loop.title} spends {percent(round(lost, 3))} of its time launching small operations and waiting for "
            f"them: {_parts_of_latency(loop, window, lost, mix)}",
            "put more work into one operation: batch small arrays together, `jax.vmap` or `lax.scan` over layers and "
            "parameters instead of Python loops, jit the whole step and not its parts",
            loop.confidence,
            loop.part * lost * REST_OF_LATENCY,
        )


@dataclass(frozen=True, slots=True)
class _Mix:
    """The kinds of operations that the device's time is made of, over all loops and windows."""

    small: float
    """Executions of small operations in a second of busy time."""
    in_operations: float
    """Share of operations' `latency` that is no loop's or conditional's own time, which passes between operations."""
    seconds_each: float
    """Of one execution of an operation that is charged to `latency`."""


def _mix(facts: Facts) -> _Mix | None:
    """None where the operations, or the share of time they stand for, are not known.

    Those that a snapshot leaves out, the smallest, are not counted among the small ones: there are more of them.
    """
    busy = small = in_operations = between = launched = 0.0
    for operation in facts.operations:
        count, seconds, share = operation.executions, operation.seconds, operation.share
        if not count or not seconds:
            continue
        busy = max(busy, seconds / share if share else 0.0)
        if not operation.is_control and seconds / count <= SMALL_OPERATION:
            small += count
        if not operation.is_latency:
            continue
        if operation.is_control:
            between += seconds
        else:
            in_operations += seconds
            launched += count
    if not 0 < busy <= LARGEST:
        return None
    latency = in_operations + between
    return _Mix(
        small / busy,
        in_operations / latency if latency else 0.0,
        in_operations / launched if launched else 0.0,
    )


def _parts_of_latency(loop: LoopFacts, window: WindowFacts, lost: float, mix: _Mix) -> str:
    """What of the loop's share `lost` passes between operations, and what inside them: figures that add up as shown."""
    within = max(0.0, window.latency - window.gap) * mix.in_operations
    own = lost * within / window.latency
    count = within / mix.seconds_each if mix.seconds_each > 0 else 0.0
    between = round(lost, 3) - round(own, 3)
    if own < LEAST_SHOWN or not count:
        small = mix.small * window.busy
        return (
            f"{percent(round(lost, 3))} between operations, of which {small:,.0f} a step or more take "
            f"{duration(SMALL_OPERATION)} or less"
        )
    each = own * loop.step_seconds / count if loop.step_seconds and _is_steady(loop) else mix.seconds_each
    inside = (
        f"{percent(round(own, 3))} in {count:,.0f} a step that take {duration(each)} each, "
        "far more than their work must"
    )
    return f"{percent(between)} between operations, and {inside}" if between >= LEAST_SHOWN else inside


def _amount(loop: LoopFacts, share: float) -> str:
    """With the time in a step, where a step is all that the loop's time went to."""
    each = (
        f" ({duration(share * loop.step_seconds)} of each step)"
        if loop.step_seconds and _is_steady(loop)
        else ""
    )
    return f"{rough_percent(share)} of the time{each}"


def _lines(loop: LoopFacts) -> str:
    """Where the main thread is meanwhile."""
    return f": {', '.join(loop.lines[:LINES])}" if loop.lines else ""


def _is_steady(loop: LoopFacts) -> bool:
    return loop.shares.get("compile") == 0 and loop.shares.get("checkpoint") == 0
