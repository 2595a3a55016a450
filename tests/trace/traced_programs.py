"""Records traces of small programs into folders of their own: a product loop, a scan, and a sharded gradient."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS = 4
TRIPS = 10


def record(folder, name, function, *arguments):
    jax.block_until_ready(function(*arguments))
    options = {}
    if hasattr(jax.profiler, "ProfileOptions"):
        options["profiler_options"] = jax.profiler.ProfileOptions()
        options["profiler_options"].python_tracer_level = 0
    with jax.profiler.trace(Path(folder) / name, **options):
        for number in range(STEPS):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                jax.block_until_ready(function(*arguments))


def main(folder):
    square = jnp.ones((256, 256)) * 0.01
    record(folder, "products", jax.jit(lambda x: jnp.tanh(x @ x) @ x), square)

    def loop(x):
        with jax.named_scope("layer"):
            return jax.lax.scan(lambda carry, _: (jnp.tanh(carry @ x), None), x, None, length=TRIPS)[0]

    record(folder, "scan", jax.jit(loop), square)
    mesh = Mesh(jax.devices(), ("data",))
    batch = jax.device_put(jnp.ones((1024, 256)), NamedSharding(mesh, PartitionSpec("data", None)))
    weights = jax.device_put(jnp.ones((256, 256)), NamedSharding(mesh, PartitionSpec()))
    gradient = jax.jit(
        jax.grad(lambda weights, batch: jnp.sum(jnp.tanh(batch @ weights) ** 2)),
        out_shardings=NamedSharding(mesh, PartitionSpec()),
    )
    record(folder, "sharded", gradient, weights, batch)


if __name__ == "__main__":
    main(sys.argv[1])
