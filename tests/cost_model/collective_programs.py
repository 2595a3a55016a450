"""Compiles one program for each collective over 8 host devices; writes their modules, pickled, to stdout."""

import pickle
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

try:
    from jax import shard_map
except ImportError:  # before JAX 0.7
    from jax.experimental.shard_map import shard_map  # type: ignore[no-redef]  # the same, where it was before

DEVICES = np.array(jax.devices())
LINE = Mesh(DEVICES, ("x",))
GRID = Mesh(DEVICES.reshape(2, 4), ("a", "b"))
ROWS = 64  # of 64 float32: 16 384 bytes in all, 2 048 on each device


def _mapped(function, mesh, given, result):
    mapped = shard_map(function, mesh=mesh, in_specs=given, out_specs=result)
    array = jax.device_put(jnp.ones((ROWS, 64)), NamedSharding(mesh, given))
    return jax.jit(mapped).lower(array)


def _data_parallel():
    """The gradient of a replicated weight, from a batch in 8 shards: its partial sums meet in an all-reduce."""
    weight = jax.device_put(jnp.ones((64, 64)), NamedSharding(LINE, PartitionSpec()))
    batch = jax.device_put(jnp.ones((128, 64)), NamedSharding(LINE, PartitionSpec("x")))
    return jax.jit(jax.grad(lambda w, x: jnp.mean((x @ w) ** 2))).lower(weight, batch)


def programs():
    """Lowered programs by name."""
    line = PartitionSpec("x")
    ring = [(device, (device + 1) % 8) for device in range(8)]
    return {
        "data parallel": _data_parallel(),
        "all-reduce of a row of four": _mapped(
            lambda x: lax.psum(x, "b"), GRID, PartitionSpec("a", "b"), PartitionSpec("a")
        ),
        "all-gather": _mapped(lambda x: lax.all_gather(x, "x"), LINE, line, line),
        "reduce-scatter": _mapped(lambda x: lax.psum_scatter(x, "x", tiled=True), LINE, line, line),
        "all-to-all": _mapped(lambda x: lax.all_to_all(x, "x", 0, 0), LINE, line, line),
        "collective-permute": _mapped(lambda x: lax.ppermute(x, "x", ring), LINE, line, line),
    }


if __name__ == "__main__":
    modules = {
        name: lowered.compile().runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
        for name, lowered in programs().items()
    }
    pickle.dump(modules, sys.stdout.buffer)
