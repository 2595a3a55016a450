"""Advice on a loop as a whole: where its wall time goes while the device waits."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from jaxobs.derive.advice.facts import Facts, Finding, LoopFacts, dearest
from jaxobs.derive.loops.view import LoopView
from jaxobs.derive.profiler_windows.operations import Row
from jaxobs.model.snapshot import main_thread_lines, waiting_for_device
from jaxobs.vocabulary.activities import INPUT, MARKED_INPUT
from jaxobs.vocabulary.units import duration, rough_percent
from jaxobs.vocabulary.words import IDLE

MAX_UNTIMED = 0.05
"""Largest share of time in which the device's work may be unknown, not counting executables that were timed: the error
of sampled device times."""

SMALL_OPERATION = 50e-6
"""Seconds up to which an operation is small: five times the 2 to 10 µs that launching a kernel takes at most."""

QUEUE = re.compile(r"(^|\.)get\b|^(pool|_base|process)\.")
"""The call below a line that waits for a queue, such as `queue.get in grain`, or for a pool or an executor
(`concurrent.futures._base`): another thread or process fills it."""


LOAD_AHEAD = "load and transfer the next batches on a background thread while this one is computed"


def input_wait(facts: Facts) -> Iterator[Finding]:
    """A loop waits for its input.

    When: the device's work is known (the loop's functions are watched, or a profiler window saw them), or done by the
    end of each turn. Where the main thread mostly waits for a queue, or waits for longer than the rest of the step takes,
    the loader must become faster; else it is enough that it runs ahead.
    Gives back: the wait.
    Why so: work of the device that is not known may lie beneath the wait; then nothing is given back. What fills a queue
    runs beside the loop already; a loader that keeps up with the rest of the step, and runs ahead of it, costs nothing.
    """
    for loop, waiting in _waiting(facts):
        loads_ahead = _loads_ahead(loop.view)
        faster = (
            "make the loader faster: more workers or processes, cheaper decoding and augmentation, batches that are "
            "prepared once and kept; at the speed of the rest of the step"
            f"{_of_a_step(loop, 1 - waiting, 'a batch')} and ahead of it, it costs nothing"
        )
        needed = [] if loads_ahead else [LOAD_AHEAD]
        needed += [faster] if loads_ahead or waiting > 1 - waiting else []
        beside = ", whose loader runs beside it already, but does not keep up," if loads_ahead else ""
        yield Finding(
            loop.subject,
            f"in the loop `{loop.name}`{beside} the device waits for input {_amount(loop, waiting)}"
            f"{_at(loop, of_input=True)}",
            "; ".join(needed),
            loop.confidence,
            loop.part * waiting,
        )


def _waiting(facts: Facts) -> Iterator[tuple[LoopFacts, float]]:
    """Loops that wait for input with the device known to be idle, each with the share of its time that it waits."""
    unknown = {each.labels for each in facts.view.executables if each.bottleneck.label == "unknown"}
    timed = sum(share for labels, share in facts.view.device_shares.items() if labels in unknown)
    for loop in facts.loops:
        waiting, untimed = loop.shares.get("input"), loop.shares.get("unknown", 0.0)
        if (idle := loop.view.device_idle.value) is not None:
            untimed -= max(0.0, idle - sum(loop.shares.get(word, 0.0) for word in IDLE))
        if waiting and (untimed * loop.part - timed <= MAX_UNTIMED or loop.view.idle_in_waits):
            yield loop, waiting


def _rows(loop: LoopView, *, of_input: bool) -> list[Mapping[str, Any]]:
    """The lines at which the main thread was at its input, or elsewhere."""
    return [
        row for row in loop.host_lines.value or () if (row["activity"] in {INPUT, MARKED_INPUT}) == of_input
    ]


def _loads_ahead(loop: LoopView) -> bool:
    """Whether the main thread, when it waits for input, mostly waits for a queue, which another one fills."""
    rows = _rows(loop, of_input=True)
    return bool(sum(row["share"] if QUEUE.search(row["waits_in"]) else -row["share"] for row in rows) > 0)


def host_work(facts: Facts) -> Iterator[Finding]:
    """The device is idle while the host works.

    When: at least 10 % of a loop's time is `host`: the device idle, and the main thread not waiting for it; where
    profiler windows saw the host run ahead of the device, `host` is the largest part.
    Gives back: the shorter of it and the rest of the step, which would overlap; all of it where the main thread waits
    for the device in less than 5 % of the time, so that they overlap already.
    Why so: `host` is what is left over, so it bears the errors of device times, 5 %; twice that is no error alone.
    """
    for loop in facts.loops:
        busy, profile = loop.shares.get("host", 0.0), loop.view.profile.value
        is_ahead = profile is not None and profile.host_is_ahead
        if busy < 0.1 or (is_ahead and busy < max(loop.shares.values())):
            continue
        lines = loop.view.host_lines.value
        never_waits = bool(lines) and waiting_for_device({"host_lines": lines}) < MAX_UNTIMED
        yield Finding(
            loop.subject,
            f"in the loop `{loop.name}` the device waits for the host {_amount(loop, busy)}{_at(loop, of_input=False)}",
            "take that work out of the loop: do it ahead on another thread or process, as a loader does, or move it into "
            "fewer and larger jitted calls"
            if never_waits
            else "let the host run ahead: read losses and metrics some steps later, not each step (`float(loss)` and "
            "`print(loss)` wait for the device), and move Python work into the jitted function"
            if facts.is_training
            else "let the host run ahead: do not read each result before the next call (`float(x)` and `print(x)` wait "
            "for the device), and do several turns in one jitted call, by `jax.lax.scan` or `jax.lax.while_loop`",
            loop.confidence,
            loop.part * (busy if never_waits else min(busy, 1 - busy)),
        )


def exposed_communication(facts: Facts) -> Iterator[Finding]:
    """Devices wait for collectives while nothing else runs.

    When: a profiler window saw them. In a job of several ranks the advice first says that another rank may be late.
    Gives back: the shorter of the wait and the rest of the step, which would overlap.
    Why so: there is no threshold of its own, because exposed time is measured.
    """
    ranks = facts.view.identity.get("process_count") or 1
    late = (
        f"see first whether another of the {ranks} ranks is late: who waits in collectives waits for the last one "
        "to come, and that is the rank with the least `communication` (docs/questions/rank.md); if all wait alike, "
    )
    less = (
        "reduce gradients in bfloat16, accumulate them over micro-batches, or take a larger batch"
        if facts.is_training
        else "a smaller element type, or fewer devices to each operation"
    )
    for loop in facts.loops:
        exposed, profile = loop.shares.get("communication"), loop.view.profile.value
        if exposed and profile is not None and profile.steps:
            yield Finding(
                loop.subject,
                f"in the loop `{loop.name}` the devices wait for collectives {_amount(loop, exposed)}"
                f"{dearest(facts, 'communication', profile.parts)}",
                f"{late if ranks > 1 else ''}let them overlap with computing (on GPUs "
                f"XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true), or send less: {less}",
                loop.confidence,
                loop.part * min(exposed, 1 - exposed),
            )


def small_operations(facts: Facts) -> Iterator[Finding]:
    """A loop launches many small operations and waits for them.

    When: its time is in part `latency`, and a profiler window saw 20 operations a step or more that take 50 µs or less.
    Gives back: nine tenths of the share charged to `latency`.
    Why so: launching takes 2 to 10 µs; `latency` is time in operations that take more than ten times what their work
    must, so that nine tenths are not spent on it, and time between the operations of a run.
    """
    for loop in facts.loops:
        lost, profile = loop.shares.get("latency"), loop.view.profile.value
        if not lost or profile is None or not profile.steps or not profile.labels().get("latency"):
            continue
        often = _small_operations_a_second(facts.view.operations.value or (), profile.parts)
        launches = often * profile.busy_seconds / profile.steps
        if launches < 20:
            continue
        yield Finding(
            loop.subject,
            f"the loop `{loop.name}` spends {_amount(loop, lost)} launching small operations and waiting for them: "
            f"{launches:,.0f} a step or more take {duration(SMALL_OPERATION)} or less"
            f"{dearest(facts, 'latency', profile.parts)}",
            "put more work into one operation: batch small arrays together, `jax.vmap` or `jax.lax.scan` over layers "
            "and parameters instead of Python loops, jit the whole step and not its parts",
            loop.confidence,
            loop.part * lost * 0.9,
        )


def _small_operations_a_second(operations: Iterable[Row], executables: Container[str]) -> float:
    """Executions of these executables' small operations in a second of busy time, over all windows; 0 if not known.

    It is a lower bound: a snapshot leaves out the smallest operations, and the device did more than this.
    """
    busy = small = 0.0
    for row in operations:
        count, seconds = row["executions"], row["seconds"]
        if not count or not seconds:
            continue
        busy = max(busy, seconds / row["share"] if row["share"] else 0.0)
        # The own time of loops and conditionals is the time between the operations in them.
        of_these = (row["executable"] or "") in executables
        if of_these and row["kind"] != "control" and seconds / count <= SMALL_OPERATION:
            small += count
    return small / busy if busy else 0.0


def _amount(loop: LoopFacts, share: float) -> str:
    """The share in words, with the time it is of each step if the loop does nothing but plain steps."""
    return f"{rough_percent(share)} of the time{_of_a_step(loop, share, 'of each step')}"


def _of_a_step(loop: LoopFacts, share: float, words: str) -> str:
    seconds = loop.view.step_seconds.value
    is_plain = not (loop.shares.get("compile") or loop.shares.get("checkpoint"))
    return f" ({duration(share * seconds)} {words})" if seconds and is_plain else ""


def _at(loop: LoopFacts, *, of_input: bool) -> str:
    """The two lines that the main thread is at most of the time meanwhile."""
    lines = main_thread_lines({"host_lines": _rows(loop.view, of_input=of_input)})
    return f": {', '.join(lines[:2])}" if lines else ""
