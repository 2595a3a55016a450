"""The loops of the labels, each run in a process of its own: prints what jaxobs says of it, as JSON.

python -m benchmarks.labels.loops --loop input --seconds 7 [--steps 3] [--every 10] [--watched]
python -m benchmarks.labels.loops --loop compute --unobserved    # calls nothing of jaxobs
python -m benchmarks.labels.loops --inject checkpoint --seconds 7
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.labels.turns import TURNS, small_step, waiting

WARM_UP = 6.0
"""Seconds. The first window comes after three without a compile."""

PAUSE = 0.005
"""Seconds of an injected wait."""


def work_in_python(seconds: float) -> None:
    """Pure Python: the host is busy. A host that sleeps is not, and its time is `unknown`."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def asked(obs: Any) -> Any:
    """What jaxobs says of the loop."""
    for _ in range(5):
        loops = obs.snapshot(timeout=5.0).to_dict()["loops"]
        if loops:
            return loops["train"]
    raise SystemExit("the agent does not answer")


def numbers(name: str, seconds: float, steps: int | None = None) -> Iterator[int]:
    """The number of each step, for so long or so many; those of `input` are waited for."""
    number, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds and number != steps:
        number += 1
        if name == "input":
            time.sleep(4 * PAUSE)
        yield number


def loop(name: str, seconds: float, steps: int | None, every: int, watched: bool) -> None:
    """Runs in a process of its own, waits `every` so many steps for the device; prints what jaxobs says of the loop."""
    import numpy

    import jaxobs

    with jaxobs.instrument() as obs:
        turn = TURNS.get(name, waiting)(obs.watch if watched else lambda function: function)
        turn(0).block_until_ready()  # its compile is not the loop's
        started = time.perf_counter()
        for number in obs.steps(numbers(name, seconds, steps)):
            made = turn(number)
            if name == "host":
                work_in_python(4 * PAUSE)
            if number % every == 0:
                saves = name in {"checkpoint", "copying"}
                with obs.phase("checkpoint") if saves else contextlib.nullcontext():
                    if name == "copying":
                        numpy.array(made)
                    made.block_until_ready()
                    time.sleep(4 * PAUSE * every if name == "checkpoint" else 0)
        told = asked(obs)
        while (
            name != "compile"
            and steps is None
            and not told["profile"]
            and time.perf_counter() - started < 2 * seconds
        ):
            time.sleep(0.2)  # the last window is being read
            told = asked(obs)
    print(json.dumps({**told["bottleneck"], "windows": (told["profile"] or {}).get("windows", 0)}))


def unobserved(name: str, seconds: float, every: int) -> None:
    """The same loops for `jaxobs run`: nothing of jaxobs is called. What the host does is on a processor, not asleep.

    Printed is the share that the first turn took, which compiles: in a loop that was found it is part of the loop.
    """
    turn = TURNS.get(name, waiting)(lambda function: function)
    began = time.perf_counter()
    turn(0).block_until_ready()
    first = time.perf_counter() - began
    for number in numbers(name, seconds):
        made = turn(number)
        if name == "host":
            work_in_python(4 * PAUSE)
        if number % every == 0:
            made.block_until_ready()
    print(first / (time.perf_counter() - began))


def inject(name: str, seconds: float, every: int) -> None:
    """The same for known seconds: prints what was injected, what came back, and wall time and the components' sum."""
    import jax.numpy as jnp
    import numpy

    import jaxobs

    injected = 0.0
    with jaxobs.instrument() as obs:
        # JAX spends some milliseconds around a compile: one that takes long makes them few.
        step = small_step(obs.watch, 100 if name == "compile" else 2)
        batch = jnp.ones((64, 256))
        began = time.perf_counter()
        for _ in obs.steps(iter(lambda: time.perf_counter() - began > WARM_UP, True)):
            # Until runs have been timed, or a window read, it is not known when the device is idle.
            step(batch).block_until_ready()
        before = asked(obs)
        started = time.perf_counter()

        # The host has work of its own in each step; and where it runs ahead, what the device does for a fraction of a
        # millisecond meanwhile is no input wait and no host's.
        pauses = {"host": 8 * PAUSE, "input": (8 if every > 1 else 1) * PAUSE, "checkpoint": every * PAUSE}

        def pause() -> None:
            nonlocal injected
            begun = time.perf_counter()
            (work_in_python if name == "host" else time.sleep)(pauses[name])
            injected += time.perf_counter() - begun

        def batches() -> Iterator[Any]:
            while time.perf_counter() - started < seconds:
                if name == "input":
                    pause()
                yield batch

        for number, item in enumerate(obs.steps(batches())):
            again = name == "compile" and number and number % 20 == 0
            given = numpy.ones((64 + number, 256), numpy.float32) if again else item
            begun = time.perf_counter()
            done = step(given)
            injected += time.perf_counter() - begun if again else 0.0
            waits = number % every == 0
            if waits:
                done.block_until_ready()
            if name == "host":
                pause()
            with obs.phase("checkpoint") if name == "checkpoint" and waits else contextlib.nullcontext():
                if name == "checkpoint" and waits:
                    pause()
        told = asked(obs)
    found = {word: amount - before["components"][word] for word, amount in told["components"].items()}
    wall = told["wall_seconds"] - before["wall_seconds"]
    print(json.dumps({"injected": injected, "found": found[name], "wall": wall, "components": found}))


def main() -> None:
    """Run one loop."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--loop", help="one of the loops, by name")
    which.add_argument("--inject", help="inject known seconds of this")
    parser.add_argument("--seconds", type=float, default=7.0)
    parser.add_argument("--steps", type=int, help="end after so many")
    parser.add_argument("--every", type=int, default=1, help="wait for the device each so many steps")
    parser.add_argument("--watched", action="store_true", help="watch the loop's function")
    parser.add_argument("--unobserved", action="store_true", help="call nothing of jaxobs")
    options = parser.parse_args()
    if options.loop and options.unobserved:
        unobserved(options.loop, options.seconds, options.every)
    elif options.loop:
        loop(options.loop, options.seconds, options.steps, options.every, options.watched)
    else:
        inject(options.inject, options.seconds, options.every)


if __name__ == "__main__":
    main()
