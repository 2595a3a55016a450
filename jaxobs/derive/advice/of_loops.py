"""Advice on a loop as a whole: where its wall time goes while the device waits."""

from __future__ import annotations

from collections.abc import Iterator

from jaxobs.derive.advice.facts import Facts, LoopFacts
from jaxobs.derive.advice.finding import Finding
from jaxobs.derive.advice.reading import number, rows
from jaxobs.derive.advice.wording import duration, percent

LEAST_HOST = 0.1
"""`host` is what nothing else explains, so it bears the errors of every other component: sampled device times are known
to within 5 %. At twice that it cannot be error alone."""

MOST_UNTIMED = 0.05
"""Share of time that may be `unknown` beside executables that were timed: the error of sampled device times. Where more
of the device's work is not known, it may lie beneath the wait, and loading ahead would give nothing back."""

SMALL_OPERATION = 50e-6
"""Seconds. Launching a kernel takes 2 to 10 µs; an operation that takes five times as long is no small one."""

MANY_OPERATIONS = 20
"""In a step. Launching so many takes about 0.1 ms; fewer are not worth a change of the program."""

REST_OF_LATENCY = 0.9
"""Time is charged to `latency` where it is more than ten times what the work must take, so nine tenths of it or more are
not the work's."""


def input_wait(facts: Facts) -> Iterator[Finding]:
    """What is loaded ahead overlaps with the rest of the step, so the shorter of the two is given back."""
    for loop in facts.loops:
        waiting = loop.shares.get("input")
        untimed = (loop.share("unknown") or 0.0) - facts.timed_unknown
        if not waiting or untimed > MOST_UNTIMED:
            continue
        slower = "; here the loader takes longer than the rest of the step, so it needs more workers too"
        yield Finding(
            loop.subject,
            f"{loop.title} waits for its input {_amount(loop, waiting)}",
            "load and transfer the next batches on a background thread while this one is computed"
            + (slower if waiting > 0.5 else ""),
            loop.confidence,
            loop.part * min(waiting, 1 - waiting),
        )


def host_work(facts: Facts) -> Iterator[Finding]:
    """The host's work beside the device's, instead of between: the shorter of the two is given back."""
    for loop in facts.loops:
        busy = loop.shares.get("host")
        if busy is None or busy < LEAST_HOST:
            continue
        yield Finding(
            loop.subject,
            f"in {loop.title} the device is idle while the host is busy {_amount(loop, busy)}",
            "let the host run ahead: read losses and metrics some steps later, not each step "
            "(`float(loss)` and `print(loss)` wait for the device), and move Python work into the jitted function",
            loop.confidence,
            loop.part * min(busy, 1 - busy),
        )


def exposed_communication(facts: Facts) -> Iterator[Finding]:
    """Communication that overlaps with computing costs nothing: the shorter of the two is given back."""
    for loop in facts.loops:
        exposed = loop.shares.get("communication")
        if not exposed or loop.profiled_steps is None:
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
    """The time that goes to launching and waiting. Counts are of one device, or less where not all took part."""
    steps = sum(loop.profiled_steps or 0.0 for loop in facts.loops)
    all_devices = max(1.0, float(len(rows(facts.document, "devices"))))
    counts = total = 0.0
    for row in rows(facts.document, "operations"):
        count, took = number(row, "executions"), number(row, "seconds")
        devices = number(row, "devices") or all_devices
        if count and took is not None and took / count <= SMALL_OPERATION:
            counts += count / devices
            total += took / devices
    if not steps or counts / steps < MANY_OPERATIONS:
        return
    for loop in facts.loops:
        lost = loop.shares.get("latency")
        if not lost or loop.profiled_steps is None:
            continue
        yield Finding(
            loop.subject,
            f"{loop.title} spends {percent(lost)} of its time launching small operations and waiting for them: "
            f"{counts / steps:,.0f} a step or more, {duration(total / counts)} each",
            "put more work into one operation: batch small arrays together, `jax.vmap` or `lax.scan` over layers and "
            "parameters instead of Python loops, jit the whole step and not its parts",
            loop.confidence,
            loop.part * lost * REST_OF_LATENCY,
        )


def _amount(loop: LoopFacts, share: float) -> str:
    """With the time in a step, where a step is all that the loop's time went to."""
    steady = loop.shares.get("compile") == 0 and loop.shares.get("checkpoint") == 0
    each = f" ({duration(share * loop.step_seconds)} of each step)" if loop.step_seconds and steady else ""
    return f"{percent(share)} of the time{each}"
