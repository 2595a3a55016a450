"""Whether a loop's label is right: eight loops on the CPU, each built so that its cause is three times its runner-up.

    python benchmarks/labels.py [--runs 5] [--seconds-of-a-run 7] [--only compute,input]
    python benchmarks/labels.py --seconds        # known seconds: what was injected, and what came back

Each run is a process of its own that marks its steps and nothing else: no function is watched, so what the device did
is known from profiler windows alone. Exit status 1 where fewer than 39 of 40 labels are right, where a loop of three
steps is not `unknown`, or where known seconds are off by more than 5 %.
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
from typing import Any

LABELS = ("compute", "memory", "input", "host", "compile", "latency", "checkpoint", "communication")
INJECTED = ("input", "host", "checkpoint", "compile")
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


def small_step(layers: int = 2) -> Callable[[Any], Any]:
    """A fraction of a millisecond of products a layer, and some milliseconds to compile."""
    import jax
    import jax.numpy as jnp

    weights = noise(256)

    @jax.jit
    def step(batch: Any) -> Any:
        for _ in range(layers):
            batch = jnp.tanh(batch @ weights)
        return jnp.mean(batch)

    return step


Turn = Callable[[int], object]
"""One turn of a loop, by its number; it ends when the device is done."""


def compute() -> Turn:
    """Products."""
    import jax
    import jax.numpy as jnp

    wide = noise(512)

    @jax.jit
    def products(x: Any) -> Any:
        for _ in range(4):
            x = x @ wide
        return jnp.sum(x)

    return lambda _: products(wide).block_until_ready()


def memory() -> Turn:
    """A triad over more than any cache holds."""
    import jax
    import jax.numpy as jnp

    # 128 MiB: no cache holds it. Donated: memory that is new each time is slow at its first touch.
    triad = jax.jit(lambda x, y: x * 0.5 + y, donate_argnums=0)
    ones = jnp.ones((32, 2**20))
    held = [triad(jnp.ones((32, 2**20)), ones)]

    def stream(_: int) -> None:
        held[0] = triad(held[0], ones).block_until_ready()

    return stream


def latency() -> Turn:
    """Many products of next to nothing."""
    import jax
    import jax.numpy as jnp

    tiny = jnp.ones((8, 8)) / 8

    @jax.jit
    def chain(x: Any) -> Any:
        for _ in range(600):  # not `fori_loop`: XLA compiles a small one into one function
            x = x @ tiny + 1
        return x

    return lambda _: chain(tiny).block_until_ready()


def communication() -> Turn:
    """An all-reduce over eight devices."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices(), ("data",))
    by_row, whole = PartitionSpec("data", None), PartitionSpec()  # type: ignore[no-untyped-call]
    rows = jax.device_put(jnp.ones((8, 2**22)), NamedSharding(mesh, by_row))
    reduce = jax.jit(lambda x: jnp.sum(x, axis=0), out_shardings=NamedSharding(mesh, whole))
    return lambda _: reduce(rows).block_until_ready()


def waiting() -> Turn:
    """A small step; what takes the time is around it."""
    import jax.numpy as jnp

    step = small_step()
    batch = jnp.ones((64, 256))
    return lambda _: step(batch).block_until_ready()


def recompiling() -> Turn:
    """A new shape each step."""
    import numpy

    step = small_step()
    return lambda number: step(numpy.ones((64 + number, 256), numpy.float32)).block_until_ready()


TURNS = {
    "compute": compute,
    "memory": memory,
    "latency": latency,
    "communication": communication,
    "compile": recompiling,
}


def asked(obs: Any) -> Any:
    """What jaxobs says of the loop."""
    for _ in range(5):
        loops = obs.snapshot(timeout=5.0).to_dict()["loops"]
        if loops:
            return loops["train"]
    raise SystemExit("the agent does not answer")


def loop(name: str, seconds: float, steps: int | None) -> None:
    """Runs in a process of its own; prints what jaxobs says of the loop."""
    import jaxobs

    with jaxobs.instrument() as obs:
        turn = TURNS.get(name, waiting)()
        turn(0)  # its compile is not the loop's
        started = time.perf_counter()

        def numbers() -> Iterator[int]:
            number = 0
            while time.perf_counter() - started < seconds and number != steps:
                number += 1
                if name == "input":
                    time.sleep(4 * PAUSE)
                yield number

        for number in obs.steps(numbers()):
            turn(number)
            if name == "host":
                time.sleep(4 * PAUSE)
            with obs.phase("checkpoint") if name == "checkpoint" else contextlib.nullcontext():
                time.sleep(4 * PAUSE if name == "checkpoint" else 0)
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


def inject(name: str, seconds: float) -> None:
    """The same for known seconds: prints what was injected, what came back, and wall time and the components' sum."""
    import jax.numpy as jnp
    import numpy

    import jaxobs

    injected = 0.0
    with jaxobs.instrument() as obs:
        # JAX spends some milliseconds around a compile: one that takes long makes them few.
        step = obs.watch(small_step(100 if name == "compile" else 2))
        batch = jnp.ones((64, 256))
        began = time.perf_counter()
        for _ in obs.steps(iter(lambda: time.perf_counter() - began > WARM_UP, True)):
            # Until runs have been timed, or a window read, it is not known when the device is idle.
            step(batch).block_until_ready()
        before = asked(obs)
        started = time.perf_counter()

        def pause() -> None:
            nonlocal injected
            begun = time.perf_counter()
            time.sleep(8 * PAUSE if name == "host" else PAUSE)  # the host has work of its own in each step
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
            done.block_until_ready()
            if name == "host":
                pause()
            with obs.phase("checkpoint") if name == "checkpoint" else contextlib.nullcontext():
                if name == "checkpoint":
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
    """Whether enough labels are right."""
    right = total = 0
    for name in names:
        for _ in range(runs):
            total += 1
            try:
                found = run(["--loop", name, "--seconds-of-a-run", str(seconds)], DEVICES.get(name))
            except DiedError as died:
                print(f"DIED  {name:14} {died}", flush=True)
                continue
            ok = found["label"] == name
            right += ok
            shares = sorted(found["shares"].items(), key=lambda item: -item[1])[:3]
            told = ", ".join(f"{word} {share:.0%}" for word, share in shares)
            print(
                f"{'right' if ok else 'WRONG':6}{name:14} -> {found['label']:14} {found['confidence']:.2f}  "
                f"{found['windows']} windows  {told}",
                flush=True,
            )
    print(f"{right} of {total} labels are right")
    short = run(["--loop", "compute", "--steps", "3", "--seconds-of-a-run", "60"])
    print(f"three steps: {short['label']} ({short['reason']})")
    return right >= ENOUGH * total and short["label"] == "unknown"


def judge_seconds(names: list[str], seconds: float) -> bool:
    """Whether the seconds that were injected come back."""
    good = True
    for name in names:
        if name not in INJECTED:
            continue
        found = run(["--inject", name, "--seconds-of-a-run", str(seconds)])
        off = found["found"] / found["injected"] - 1
        rest = sum(found["components"].values()) / found["wall"] - 1
        ok = abs(off) <= TOLERANCE and abs(rest) <= SUM_TOLERANCE
        good = good and ok
        print(
            f"{'right' if ok else 'WRONG':6}{name:11} injected {found['injected']:.3f} s, found {found['found']:.3f} s "
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
    parser.add_argument("--only", default=",".join(LABELS))
    parser.add_argument("--seconds", action="store_true")
    parser.add_argument("--loop", help=argparse.SUPPRESS)
    parser.add_argument("--inject", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loop:
        loop(options.loop, options.seconds_of_a_run, options.steps)
        return 0
    if options.inject:
        inject(options.inject, options.seconds_of_a_run)
        return 0
    from jaxobs.cli.demonstration.peaks import ensure_peaks
    from jaxobs.config import load_settings

    ensure_peaks(load_settings())  # without peaks of this machine nothing is compute or memory
    names = options.only.split(",")
    if options.seconds:
        return 0 if judge_seconds(names, options.seconds_of_a_run) else 1
    return 0 if judge_labels(names, options.runs, options.seconds_of_a_run) else 1


if __name__ == "__main__":
    sys.exit(main())
