"""The loops of the labels, each run as a program of its own. It tells which label is right, by construction.

python loops.py marked input 7            # or `marked input 7 10 watched`, `marked input 60 1 three`
python loops.py unobserved compute 7 10   # calls nothing of jaxobs
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from benchmarks.programs.truth import Clock, main, observer, until, work_in_python

PAUSE = 0.005
"""Seconds of an injected wait."""

LABELS = {"copying": "compute", "long": "compute", "large": "compute"}
"""Of loops that are not called as their label."""

COMPILED = 0.5
"""Share of an unmarked loop that its first turn takes, by its own clock, from which on `compile` is a right label too."""


class Sizes(NamedTuple):
    """What keeps the cause of a loop at least three times its runner-up on a kind of device.

    Attributes:
        square: Rows of the matrices whose products are to be compute.
        rows: Rows of 4 MiB of each of two arrays that no cache holds.
        tiny: Rows of the matrices whose products are to be latency.
        links: How many such products follow each other.
    """

    square: int
    rows: int
    tiny: int
    links: int


CPU = Sizes(square=512, rows=32, tiny=8, links=2000)
GPU = Sizes(square=8192, rows=256, tiny=64, links=300)
"""On a GPU four products of 8192 in TensorFloat-32 take some 10 ms against 0.6 ms of memory traffic; 1 GiB is many times
the largest cache; and a product of 64 is a kernel of its own, of some microseconds, while XLA makes ones of 8 part of a
fusion (openxla/xla, xla_gpu_gemm_rewrite_size_threshold)."""


def sizes() -> Sizes:
    """Those for JAX's default backend."""
    return CPU if jax.default_backend() == "cpu" else GPU


def noise(size: int) -> Any:
    """A square matrix whose products neither grow nor shrink.

    Not one value throughout: by such a constant jaxlib 0.10.2 multiplies wrongly on CPUs, reading beyond its end.
    """
    return jnp.asarray(np.random.default_rng(0).standard_normal((size, size), np.float32) / size**0.5)


Watch = Callable[[Any], Any]
"""What wraps the functions of a loop: `obs.watch`, or nothing."""


def small_step(watch: Watch) -> Any:
    """A fraction of a millisecond of products, and some milliseconds to compile."""
    weights = noise(256)

    @watch
    @jax.jit
    def step(batch: Any) -> Any:
        for _ in range(2):
            batch = jnp.tanh(batch @ weights)
        return jnp.mean(batch)

    return step


Turn = Callable[[int], Any]
"""One turn of a loop, by its number; gives what the device will have made when it is done."""


def compute(watch: Watch) -> Turn:
    """Products, of an argument: a captured array is part of the module, and one of a GPU's 256 MiB exceeds its limit."""
    wide = noise(sizes().square)

    @watch
    @jax.jit
    def products(x: Any, factor: Any) -> Any:
        for _ in range(4):
            x = x @ factor
        return jnp.sum(x)

    return lambda _: products(wide, wide)


def product(watch: Watch, left: Any, right: Any) -> Turn:
    """One product of two matrices."""
    multiply = watch(jax.jit(lambda x, y: x @ y))
    return lambda _: multiply(left, right)


def long(watch: Watch) -> Turn:
    """One product that takes longer than a second, and longer than a profiler window."""
    wide = noise(5120)  # 0.27 TFLOP: a second at 270 GFLOP/s, the most that two cores here were seen to do
    return product(watch, wide, wide)


def large(watch: Watch) -> Turn:
    """A product whose only output is 64 MiB, of memory that is new each time: eight times what writing it takes."""
    return product(watch, noise(4096)[:, :768], noise(4096)[:768])


def memory(watch: Watch) -> Turn:
    """A triad over more than any cache holds."""
    # 128 MiB on a CPU: no cache holds it. Donated: memory that is new each time is slow at its first touch.
    triad = watch(jax.jit(lambda x, y: x * 0.5 + y, donate_argnums=0))
    shape = (sizes().rows, 2**20)
    ones = jnp.ones(shape)
    held = [triad(jnp.ones(shape), ones)]

    def stream(_: int) -> Any:
        held[0] = triad(held[0], ones)
        return held[0]

    return stream


def latency(watch: Watch) -> Turn:
    """Many products of next to nothing."""
    size, links = sizes().tiny, sizes().links
    tiny = jnp.ones((size, size)) / size if size == CPU.tiny else noise(size)

    @watch
    @jax.jit
    def chain(x: Any) -> Any:
        for _ in range(links):  # not `fori_loop`: XLA compiles a small one into one function
            x = x @ tiny + 1
        return x

    return lambda _: chain(tiny)


def communication(watch: Watch) -> Turn:
    """An all-reduce over eight devices."""
    mesh = Mesh(jax.devices(), ("data",))
    by_row, whole = PartitionSpec("data", None), PartitionSpec()
    rows = jax.device_put(jnp.ones((8, 2**22)), NamedSharding(mesh, by_row))
    reduce = watch(jax.jit(lambda x: jnp.sum(x, axis=0), out_shardings=NamedSharding(mesh, whole)))
    return lambda _: reduce(rows)


def waiting(watch: Watch) -> Turn:
    """A small step; what takes the time is around it."""
    step = small_step(watch)
    batch = jnp.ones((64, 256))
    return lambda _: step(batch)


def recompiling(watch: Watch) -> Turn:
    """A new shape each step."""
    step = small_step(watch)
    return lambda number: step(np.ones((64 + number, 256), np.float32))


def transfer(watch: Watch) -> Turn:
    """An array of 512 MiB to pinned memory of the host and back; a sum of little of it that watches the way.

    Pinned, as a copy from and to pageable memory goes through the processor, which then takes the time.
    """
    home = jax.devices()[0]
    on_host = SingleDeviceSharding(home, memory_kind="pinned_host")
    on_device = SingleDeviceSharding(home, memory_kind="device")
    look = watch(jax.jit(lambda x: jnp.sum(x[:1024])))
    held = [jnp.arange(2**27, dtype=jnp.float32)]

    def round_trip(_: int) -> Any:
        held[0] = jax.device_put(jax.device_put(held[0], on_host), on_device)
        return look(held[0])

    return round_trip


TURNS = {
    "compute": compute,
    "long": long,
    "large": large,
    "memory": memory,
    "latency": latency,
    "communication": communication,
    "compile": recompiling,
    "copying": compute,
    "transfer": transfer,
}


def has_window(obs: Any) -> bool:
    """Whether a profiler window of the loop has been read."""
    loops = obs.snapshot(timeout=5.0).to_dict()["loops"] or {}
    return bool(loops.get("train", {}).get("profile"))


def numbers(name: str, seconds: float) -> Iterator[int]:
    """The number of each step, from 1 on; those of `input` are waited for."""
    for number in until(seconds):
        if name == "input":
            time.sleep(4 * PAUSE)
        yield number + 1


def train(name: str, turn: Turn, numbers: Iterable[int], every: int, obs: Any = None) -> None:
    """The loop, which waits for the device each `every` so many steps; with an observer its checkpoints are marked."""
    for number in numbers:
        made = turn(number)
        if name == "host":
            work_in_python(4 * PAUSE)
        if number % every == 0:
            saves = obs is not None and name in {"checkpoint", "copying"}
            with obs.phase("checkpoint") if saves else contextlib.nullcontext():
                if name == "copying":
                    np.array(made)
                made.block_until_ready()
                time.sleep(4 * PAUSE * every if name == "checkpoint" else 0)


def marked(name: str, seconds: str, every: str = "1", *options: str) -> dict[str, Any]:
    """A loop that is marked; its function is `watched`, or not; it ends after `three` steps, or when the time is up."""
    obs, few = observer(), "three" in options
    turn = TURNS.get(name, waiting)(obs.watch if "watched" in options else lambda function: function)
    turn(0).block_until_ready()  # its compile is not the loop's
    started = time.perf_counter()
    turns = islice(numbers(name, float(seconds)), 3 if few else None)
    train(name, turn, obs.steps(turns), int(every), obs)
    patience = 0.0 if name == "compile" or few else started + 2 * float(seconds)
    while time.perf_counter() < patience and not has_window(obs):
        time.sleep(0.2)  # the last window is being read
    return {"label": LABELS.get(name, name)}


def unobserved(name: str, seconds: str, every: str = "1") -> dict[str, Any]:
    """The same loops for `jaxobs run`: nothing of jaxobs is called. What the host does is on a processor, not asleep.

    A first turn, which compiles, is part of a loop that was found: where it takes most of it, `compile` is right as well.
    """
    turn = TURNS.get(name, waiting)(lambda function: function)
    began = time.perf_counter()
    turn(0).block_until_ready()
    first, clock = time.perf_counter() - began, Clock()
    train(name, turn, clock.over(numbers(name, float(seconds))), int(every))
    also = ["compile"] if first / (time.perf_counter() - began) > COMPILED else []
    return {"label": LABELS.get(name, name), "also": also, "step_seconds": clock.step_seconds}


if __name__ == "__main__":
    main(marked, unobserved)
