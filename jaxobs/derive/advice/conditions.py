"""The table of conditions: what triggers each, what it gives back, and why its thresholds are what they are.

docs/reference/advice.md is written from this table by `docs/generators/generate_advice.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from jaxobs.derive.advice import of_compiles, of_devices, of_loops, of_work
from jaxobs.derive.advice.facts import LEAST_CONFIDENCE, Facts
from jaxobs.derive.advice.finding import Finding
from jaxobs.derive.clocks import LOW_CLOCK
from jaxobs.derive.compilation import CACHED_FROM
from jaxobs.vocabulary.units import byte_size, duration, rough_percent


class Condition(NamedTuple):
    """One row of the table. `find` yields its findings; `ranking.py` filters and orders those of all conditions."""

    name: str
    trigger: str
    saves: str
    reason: str
    find: Callable[[Facts], Iterator[Finding]]
    in_a_trace: bool = False
    """Whether a profiler trace alone is enough to check the condition."""


_SURE: Final = f"confidence of the bottleneck at least {LEAST_CONFIDENCE}"

CONDITIONS: Final = (
    Condition(
        "recompilation",
        f"at least {of_compiles.LEAST_RECOMPILATIONS} recompilations of a function by the same known cause, or one that "
        f"took {duration(of_compiles.LARGE)} or more; several causes of a function are one piece, which names the "
        f"{of_compiles.MOST_CAUSES} that took most time, and functions that lost too little for a piece of their own are "
        "one together",
        "the seconds of all of them, over the age of the process",
        "a small single one says nothing about the next hour; a large one is spent at each start; cause `other` is no "
        "known cause",
        of_compiles.recompilation,
    ),
    Condition(
        "persistent_cache",
        "the persistent compilation cache is known to be off, and compiling took more than "
        f"{duration(of_compiles.LEAST_COMPILE_SECONDS)} in programs that took {duration(CACHED_FROM)} or more each",
        "those seconds, over the age of the process: what the next start would not spend",
        "JAX caches programs that took a second to compile, by default; below ten seconds a cache is not worth its keep",
        of_compiles.persistent_cache,
    ),
    Condition(
        "input_wait",
        "a loop waits for its input, and the device's work is known but for "
        f"{rough_percent(of_loops.MOST_UNTIMED)} of it (the loop's functions are watched, or a profiler window saw "
        f"them); {_SURE}",
        "the shorter of the wait and the rest of the step, which would overlap",
        "work of the device that is not known may lie beneath the wait, and then loading ahead gives nothing back",
        of_loops.input_wait,
    ),
    Condition(
        "slow_loader",
        "a loop waits for its input for more than half of its time, and the device's work is known as above; "
        f"{_SURE}",
        "the wait: with a loader that keeps up with the rest of the step and runs ahead of it, all of it",
        "loading ahead alone gives back no more than the rest of the step takes; `input_wait` says how much that is",
        of_loops.slow_loader,
    ),
    Condition(
        "host_work",
        f"at least {rough_percent(of_loops.LEAST_HOST)} of a loop's time is `host`: the device idle, and the main "
        "thread on a processor; where profiler windows saw the host run ahead of the device, `host` is the largest part; "
        f"{_SURE}",
        "the shorter of it and the rest of the step, which would overlap",
        "`host` is part of what is left over, so it bears the errors of sampled device times, 5 %",
        of_loops.host_work,
    ),
    Condition(
        "exposed_communication",
        f"a profiler window saw collectives that nothing else ran beside; {_SURE}",
        "the shorter of them and the rest of the step, which would overlap",
        "no threshold of its own: exposed time is measured",
        of_loops.exposed_communication,
        in_a_trace=True,
    ),
    Condition(
        "small_operations",
        f"a loop's time is in part `latency`, and a profiler window saw {of_loops.MANY_OPERATIONS} operations a step or "
        f"more that take {duration(of_loops.SMALL_OPERATION)} or less each; {_SURE}",
        f"{rough_percent(of_loops.REST_OF_LATENCY)} of the share charged to `latency`",
        "launching takes 2 to 10 µs; `latency` is time in operations that take more than ten times what their work must, "
        "and time between the operations of a run: the sentence gives both",
        of_loops.small_operations,
        in_a_trace=True,
    ),
    Condition(
        "small_batch",
        f"an executable is bound by memory, at least {rough_percent(of_work.MOSTLY_PRODUCTS)} of its FLOPs are matrix "
        "products, its intensity is below the ridge (peak FLOP/s over peak bytes/s), and reading and writing donated "
        f"arguments is at least {rough_percent(of_work.STATE_SHARE)} of its bytes; {_SURE}",
        "half of that share of its time: twice the batch moves the state once for twice the examples",
        "only donated state is known not to grow with the batch; without donation nothing is said",
        of_work.small_batch,
    ),
    Condition(
        "slow_element_type",
        "an executable or operation is bound by compute, has products that run in float32, and the device's bfloat16 "
        f"peak is at least {of_work.LEAST_FACTOR} times the faster of its float32 and TensorFloat-32 peaks; {_SURE}",
        "the least time those products can take, less what they would take in bfloat16",
        "products asked for in float32 may run as TensorFloat-32 already; casts take what a smaller factor gives back",
        of_work.slow_element_type,
        in_a_trace=True,
    ),
    Condition(
        "throttled_device",
        "something holds the clocks of a busy device down, on average over the last half minute to less than "
        f"{LOW_CLOCK:.1f} of the highest, and a loop's time is bound by compute (where by memory: the memory's clock); "
        f"{_SURE}",
        f"the part of that time that the clock at {LOW_CLOCK:.1f} of its highest would not take",
        "peaks are reached a little below the highest clock: an H100 SXM's at 0.92 of it",
        of_devices.throttled_device,
    ),
    Condition(
        "donation",
        "an executable that ran at least twice has outputs that could take over arguments of the same shape and type, of "
        f"at least {rough_percent(of_work.DONATION_SHARE)} of the device's memory, or "
        f"{byte_size(of_work.DONATION_BYTES)} where its size is not known",
        "bytes, not seconds",
        "less is lost in the allocator's own rounding",
        of_work.donation,
    ),
)
"""All conditions, in the order in which they are checked. None of them guesses: an absent number triggers nothing."""
