"""Whether a loop's label is right: loops on the CPU, each built so that its cause is at least three times its runner-up.

    python benchmarks/labels.py [--runs 5] [--seconds-of-a-run 7] [--only compute,input]
    python benchmarks/labels.py --only asynchronous
    python benchmarks/labels.py --seconds        # known seconds: what was injected, and what came back

Eight loops wait for the device in each step. Asynchronous ones let the host run ahead of it, as most training does, and
wait every tenth or twentieth step only: for a loss, or for the state that a checkpoint copies.

Each run is a process of its own that marks its steps. In the eight no function is watched, so what the device did is
known from profiler windows alone; the asynchronous ones run both ways. Exit status 1 where fewer than 39 of 40 labels of
either table are right, where a loop of three steps is not `unknown`, or where known seconds are off by more than 5 %.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

LABELS = ("compute", "memory", "input", "host", "compile", "latency", "checkpoint", "communication")


class Asynchronous(NamedTuple):
    """A loop whose host waits for the device only every so many steps.

    The checkpoint of `copying` takes no time but that of the device, for which it waits; that of `checkpoint` does.
    """

    turns: str
    every: int
    label: str


ASYNCHRONOUS = (
    Asynchronous("compute", 10, "compute"),
    Asynchronous("memory", 10, "memory"),
    Asynchronous("latency", 20, "latency"),
    Asynchronous("input", 10, "input"),
    Asynchronous("host", 20, "host"),
    Asynchronous("checkpoint", 20, "checkpoint"),
    Asynchronous("copying", 20, "compute"),
)
LONGER = 5.0
"""Seconds that they run longer: of a host that runs ahead a window may tell less, and the next one comes later."""

INJECTED = ("input", "host", "checkpoint", "compile")
INJECTED_ASYNCHRONOUSLY = ("input", "host", "checkpoint")
EVERY = 20
DEVICES = {"communication": "8"}
ENOUGH = 39 / 40
TOLERANCE = 0.05
SUM_TOLERANCE = 0.01
WARM_UP = 6.0
"""Seconds. The first window comes after three without a compile."""

PAUSE = 0.005
"""Seconds of an injected wait."""


def noise(size: int) -> Any:
    """A square matrix whose products neither grow nor shrink.

    Not one value throughout: by such a constant jaxlib 0.10.2 multiplies wrongly on CPUs, reading beyond its end.
    """
    import jax.numpy as jnp
    import numpy

    return jnp.asarray(numpy.random.default_rng(0).standard_normal((size, size), numpy.float32) / size**0.5)


Watch = Callable[[Any], Any]
"""What wraps the functions of a loop: `obs.watch`, or nothing."""


def small_step(watch: Watch, layers: int = 2) -> Callable[[Any], Any]:
    """A fraction of a millisecond of products a layer, and some milliseconds to compile."""
    import jax
    import jax.numpy as jnp

    weights = noise(256)

    @watch
    @jax.jit
    def step(batch: Any) -> Any:
        for _ in range(layers):
            batch = jnp.tanh(batch @ weights)
        return jnp.mean(batch)

    whole: Callable[[Any], Any] = step
    return whole


Turn = Callable[[int], Any]
"""One turn of a loop, by its number; gives what the device will have made when it is done."""


def compute(watch: Watch) -> Turn:
    """Products."""
    import jax
    import jax.numpy as jnp

    wide = noise(512)

    @watch
    @jax.jit
    def products(x: Any) -> Any:
        for _ in range(4):
            x = x @ wide
        return jnp.sum(x)

    return lambda _: products(wide)


def memory(watch: Watch) -> Turn:
    """A triad over more than any cache holds."""
    import jax
    import jax.numpy as jnp

    # 128 MiB: no cache holds it. Donated: memory that is new each time is slow at its first touch.
    triad = watch(jax.jit(lambda x, y: x * 0.5 + y, donate_argnums=0))
    ones = jnp.ones((32, 2**20))
    held = [triad(jnp.ones((32, 2**20)), ones)]

    def stream(_: int) -> Any:
        held[0] = triad(held[0], ones)
        return held[0]

    return stream


def latency(watch: Watch) -> Turn:
    """Many products of next to nothing."""
    import jax
    import jax.numpy as jnp

    tiny = jnp.ones((8, 8)) / 8

    @watch
    @jax.jit
    def chain(x: Any) -> Any:
        for _ in range(600):  # not `fori_loop`: XLA compiles a small one into one function
            x = x @ tiny + 1
        return x

    return lambda _: chain(tiny)


def communication(watch: Watch) -> Turn:
    """An all-reduce over eight devices."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices(), ("data",))
    by_row, whole = PartitionSpec("data", None), PartitionSpec()  # type: ignore[no-untyped-call]
    rows = jax.device_put(jnp.ones((8, 2**22)), NamedSharding(mesh, by_row))
    reduce = watch(jax.jit(lambda x: jnp.sum(x, axis=0), out_shardings=NamedSharding(mesh, whole)))
    return lambda _: reduce(rows)


def waiting(watch: Watch) -> Turn:
    """A small step; what takes the time is around it."""
    import jax.numpy as jnp

    step = small_step(watch)
    batch = jnp.ones((64, 256))
    return lambda _: step(batch)


def recompiling(watch: Watch) -> Turn:
    """A new shape each step."""
    import numpy

    step = small_step(watch)
    return lambda number: step(numpy.ones((64 + number, 256), numpy.float32))


TURNS = {
    "compute": compute,
    "memory": memory,
    "latency": latency,
    "communication": communication,
    "compile": recompiling,
    "copying": compute,
}


def asked(obs: Any) -> Any:
    """What jaxobs says of the loop."""
    for _ in range(5):
        loops = obs.snapshot(timeout=5.0).to_dict()["loops"]
        if loops:
            return loops["train"]
    raise SystemExit("the agent does not answer")


def loop(name: str, seconds: float, steps: int | None, every: int, watched: bool) -> None:
    """Runs in a process of its own, waits `every` so many steps for the device; prints what jaxobs says of the loop."""
    import numpy

    import jaxobs

    with jaxobs.instrument() as obs:
        turn = TURNS.get(name, waiting)(obs.watch if watched else lambda function: function)
        turn(0).block_until_ready()  # its compile is not the loop's
        started = time.perf_counter()

        def numbers() -> Iterator[int]:
            number = 0
            while time.perf_counter() - started < seconds and number != steps:
                number += 1
                if name == "input":
                    time.sleep(4 * PAUSE)
                yield number

        for number in obs.steps(numbers()):
            made = turn(number)
            if name == "host":
                time.sleep(4 * PAUSE)
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
            time.sleep(pauses[name])
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


class DiedError(RuntimeError):
    """A run ended without an answer."""


def run(arguments: list[str], devices: str | None = None) -> dict[str, Any]:
    """The answer of a run in a process of its own. Raises DiedError, with all that it said."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
    if devices is not None:
        environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", __file__, *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise DiedError(f"{' '.join(arguments)} ended with status {done.returncode}:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def judge_labels(names: list[str], runs: int, seconds: float) -> bool:
    """Whether enough labels are right, and a loop of three steps is `unknown`."""
    enough = judge([(name, [], name, name) for name in names if name in LABELS], runs, seconds, "")
    short = run(["--loop", "compute", "--steps", "3", "--seconds-of-a-run", "60"])
    print(f"three steps: {short['label']} ({short['reason']})", flush=True)
    return enough and short["label"] == "unknown"


def judge_asynchronous_labels(runs: int, seconds: float) -> bool:
    """The same for those in which the host runs ahead of the device."""
    cases = []
    for case in ASYNCHRONOUS:
        every = ["--every", str(case.every)]
        cases.append((case.turns, every, case.turns, case.label))
        cases.append((case.turns, [*every, "--watched"], f"{case.turns}, watched", case.label))
    return judge(cases, runs, seconds + LONGER, " of asynchronous loops")


def judge(cases: list[tuple[str, list[str], str, str]], runs: int, seconds: float, what: str) -> bool:
    """Of loops by name, with further arguments, title and true label: whether enough are told."""
    right = total = 0
    for name, arguments, title, label in cases:
        for _ in range(runs):
            total += 1
            try:
                found = run(
                    ["--loop", name, "--seconds-of-a-run", str(seconds), *arguments], DEVICES.get(name)
                )
            except DiedError as died:
                print(f"DIED  {title:20} {died}", flush=True)
                continue
            ok = found["label"] == label
            right += ok
            shares = sorted(found["shares"].items(), key=lambda item: -item[1])[:3]
            told = ", ".join(f"{word} {share:.0%}" for word, share in shares)
            print(
                f"{'right' if ok else 'WRONG':6}{title:20} -> {found['label']:14} {found['confidence']:.2f}  "
                f"{found['windows']} windows  {told}",
                flush=True,
            )
    print(f"{right} of {total} labels{what} are right", flush=True)
    return right >= ENOUGH * total


def judge_seconds(names: list[str], seconds: float) -> bool:
    """Whether the seconds that were injected come back."""
    good = True
    cases = [(name, 1) for name in INJECTED] + [(name, EVERY) for name in INJECTED_ASYNCHRONOUSLY]
    for name, every in cases:
        if name not in names and (every == 1 or "asynchronous" not in names):
            continue
        found = run(["--inject", name, "--seconds-of-a-run", str(seconds), "--every", str(every)])
        off = found["found"] / found["injected"] - 1
        rest = sum(found["components"].values()) / found["wall"] - 1
        ok = abs(off) <= TOLERANCE and abs(rest) <= SUM_TOLERANCE
        good = good and ok
        title = name + (", asynchronous" if every > 1 else "")
        print(
            f"{'right' if ok else 'WRONG':6}{title:25} injected {found['injected']:.3f} s, found {found['found']:.3f} s "
            f"({off:+.1%}); components over wall time {rest:+.2%}",
            flush=True,
        )
        if not ok:
            print(
                "      ", {word: round(amount, 3) for word, amount in found["components"].items() if amount}
            )
    return good


def main() -> int:
    """Run what was asked for; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds-of-a-run", type=float, default=7.0)
    parser.add_argument("--only", default=",".join((*LABELS, "asynchronous")))
    parser.add_argument("--seconds", action="store_true")
    parser.add_argument("--loop", help=argparse.SUPPRESS)
    parser.add_argument("--inject", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--every", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--watched", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loop:
        loop(options.loop, options.seconds_of_a_run, options.steps, options.every, options.watched)
        return 0
    if options.inject:
        inject(options.inject, options.seconds_of_a_run, options.every)
        return 0
    from jaxobs.cli.demonstration.peaks import ensure_peaks
    from jaxobs.config import load_settings

    ensure_peaks(load_settings())  # without peaks of this machine nothing is compute or memory
    names = options.only.split(",")
    if options.seconds:
        return 0 if judge_seconds(names, options.seconds_of_a_run) else 1
    good = not set(names) & set(LABELS) or judge_labels(names, options.runs, options.seconds_of_a_run)
    if "asynchronous" in names:
        good = judge_asynchronous_labels(options.runs, options.seconds_of_a_run) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
