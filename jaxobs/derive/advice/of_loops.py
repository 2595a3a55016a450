"""Advice on a loop as a whole: where its wall time goes while the device waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jaxobs.derive.advice.facts import LARGEST, Facts, LoopFacts, WindowFacts
from jaxobs.derive.advice.finding import Finding
from jaxobs.vocabulary.units import duration, percent, rough_percent

LEAST_HOST = 0.1
"""Least share of `host`. It is part of the time that nothing else explains, so it carries the errors of every other
component: sampled device times are known to within 5 %. At twice that it cannot be error alone."""

LINES = 2
"""Lines of code named in a sentence about where the main thread is."""

MOST_UNTIMED = 0.05
"""Largest share of time in which the device's work may be unknown, not counting executables that were timed: the error
of sampled device times. Where more is unknown, the device may work during the wait, and then loading ahead gives
nothing back."""

SMALL_OPERATION = 50e-6
"""Seconds up to which an operation is small: five times the 2 to 10 µs that launching a kernel takes at most."""

MANY_OPERATIONS = 20
"""Least small operations in a step. Launching this many takes about 0.1 ms; fewer are not worth changing a program."""

LEAST_SHOWN = 0.0005
"""Share of the time below which a part of `latency` is not mentioned in a sentence."""

REST_OF_LATENCY = 0.9
"""Share of `latency` that could be given back. Time is charged to `latency` where it is more than ten times what the
work must take, so at least nine tenths of it are not spent on the work."""


def input_wait(facts: Facts) -> Iterator[Finding]:
    """Loops that wait for input. Loading ahead overlaps with the rest of the step: the shorter of the two is saved."""
    for loop, waiting in _waiting(facts):
        yield Finding(
            loop.subject,
            f"{loop.title} waits for its input {_amount(loop, waiting)}{_lines(loop)}",
            "load and transfer the next batches on a background thread while this one is computed",
            loop.confidence,
            loop.part * min(waiting, 1 - waiting),
        )


def slow_loader(facts: Facts) -> Iterator[Finding]:
    """Loaders that take longer than the rest of the step: even running ahead they would limit the loop."""
    for loop, waiting in _waiting(facts):
        if waiting <= 1 - waiting:
            continue
        yield Finding(
            loop.subject,
            f"the loader of {loop.title} takes longer than the rest of the step, which waits for it "
            f"{_amount(loop, waiting)}",
            "make the loader faster: more workers or processes, cheaper decoding and augmentation, batches that are "
            "prepared once and kept; at the speed of the rest of the step"
            f"{_of_a_step(loop, 1 - waiting, 'a batch')} and ahead of it, it costs nothing",
            loop.confidence,
            loop.part * waiting,
        )


def _waiting(facts: Facts) -> Iterator[tuple[LoopFacts, float]]:
    """Loops that wait for input and whose device work is known, each with the share of its time that it waits."""
    for loop in facts.loops:
        waiting = loop.shares.get("input")
        untimed = loop.untimed * loop.part - facts.timed_unknown
        if waiting and untimed <= MOST_UNTIMED:
            yield loop, waiting


def host_work(facts: Facts) -> Iterator[Finding]:
    """Loops in which the device is idle while the host works. Overlapping the two would save the shorter of them."""
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
    """Loops that wait for collectives. Overlapping them with computing would save the shorter of the two."""
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
    """Loops that launch many small operations and wait for them. The time lost is in operations and between them."""
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
    """Share of `latency` in operations other than loops and conditionals, whose own time is between operations."""
    seconds_each: float
    """Mean seconds of one execution of an operation that is charged to `latency`."""


def _mix(facts: Facts) -> _Mix | None:
    """The mix of operations; None where the operations, or their share of the time, are not known.

    A snapshot leaves out the smallest operations, so the number of small ones is a lower bound.
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
    """How much of the share `lost` is spent between operations and how much in them; the figures add up as shown."""
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
    each = own * loop.step_seconds / count if loop.step_seconds else mix.seconds_each
    inside = (
        f"{percent(round(own, 3))} in {count:,.0f} a step that take {duration(each)} each, "
        "far more than their work must"
    )
    return f"{percent(between)} between operations, and {inside}" if between >= LEAST_SHOWN else inside


def _amount(loop: LoopFacts, share: float) -> str:
    """The share in words, with the time it is of each step where the loop does nothing but plain steps."""
    return f"{rough_percent(share)} of the time{_of_a_step(loop, share, 'of each step')}"


def _of_a_step(loop: LoopFacts, share: float, words: str) -> str:
    return f" ({duration(share * loop.step_seconds)} {words})" if loop.step_seconds else ""


def _lines(loop: LoopFacts) -> str:
    """The lines that the main thread is at meanwhile."""
    return f": {', '.join(loop.lines[:LINES])}" if loop.lines else ""
