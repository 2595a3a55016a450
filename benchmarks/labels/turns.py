"""One turn of each loop of `loops.py`, in sizes for the device it runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


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
    import jax

    return CPU if jax.default_backend() == "cpu" else GPU


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

    wide = noise(sizes().square)

    @watch
    @jax.jit
    def products(x: Any) -> Any:
        for _ in range(4):
            x = x @ wide
        return jnp.sum(x)

    return lambda _: products(wide)


def long(watch: Watch) -> Turn:
    """One product that takes longer than a second, and longer than a profiler window."""
    import jax

    wide = noise(5120)  # 0.27 TFLOP: a second at 270 GFLOP/s, the most that two cores here were seen to do
    product = watch(jax.jit(lambda x, y: x @ y))
    return lambda _: product(wide, wide)


def large(watch: Watch) -> Turn:
    """A product whose only output is 64 MiB, of memory that is new each time: eight times what writing it takes."""
    import jax

    tall, flat = noise(4096)[:, :768], noise(4096)[:768]
    product = watch(jax.jit(lambda x, y: x @ y))
    return lambda _: product(tall, flat)


def memory(watch: Watch) -> Turn:
    """A triad over more than any cache holds."""
    import jax
    import jax.numpy as jnp

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
    import jax
    import jax.numpy as jnp

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
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices(), ("data",))
    by_row, whole = PartitionSpec("data", None), PartitionSpec()
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


def transfer(watch: Watch) -> Turn:
    """An array of 512 MiB to pinned memory of the host and back; a sum of little of it that watches the way.

    Pinned, as a copy from and to pageable memory goes through the processor, which then takes the time.
    """
    import jax
    import jax.numpy as jnp

    home = jax.devices()[0]
    on_host = jax.sharding.SingleDeviceSharding(home, memory_kind="pinned_host")
    on_device = jax.sharding.SingleDeviceSharding(home, memory_kind="device")
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
