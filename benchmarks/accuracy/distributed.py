"""Programs over 8 host devices: what one device computes and sends."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks.accuracy.program import Program, ones

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

MESH = Mesh(np.array(jax.devices()), ("x",))
ROWS, WHOLE = PartitionSpec("x"), PartitionSpec()


def _placed(array, spec):
    return jax.device_put(array, NamedSharding(MESH, spec))


def _mapped(name, function, flops, given=(ROWS, WHOLE), result=ROWS):
    """A product of 128 × 64 rows in 8 shards with a 64 × 64 weight, and a collective."""
    mapped = shard_map(function, mesh=MESH, in_specs=given, out_specs=result)
    arguments = (_placed(ones(128, 64), given[0]), _placed(ones(64, 64), given[1]))
    return Program(f"shard_map with {name}", mapped, arguments, matrix_flops=flops)


SHARD = 2 * 16 * 64 * 64
RING = [(device, (device + 1) % 8) for device in range(8)]


def _loss(w, x):
    return jnp.mean((x @ w) ** 2)


PROGRAMS = (
    _mapped("all-gather", lambda x, w: lax.all_gather(x @ w, "x"), SHARD),
    _mapped("all-reduce", lambda x, w: lax.psum(x @ w, "x"), SHARD, result=WHOLE),
    _mapped("reduce-scatter", lambda x, w: lax.psum_scatter(x @ w, "x", tiled=True), SHARD),
    _mapped("all-to-all", lambda x, w: lax.all_to_all(x @ w, "x", 0, 0, tiled=True), SHARD),
    _mapped("permutation", lambda x, w: lax.ppermute(x @ w, "x", RING), SHARD),
    Program("data-parallel gradient", jax.grad(_loss), (_placed(ones(64, 64), WHOLE), _placed(ones(128, 64), ROWS)),
            2 * SHARD),
    Program("tensor-parallel MLP", lambda x, u, d: jax.nn.relu(x @ u) @ d,
            (_placed(ones(128, 64), WHOLE), _placed(ones(64, 256), PartitionSpec(None, "x")),
             _placed(ones(256, 64), ROWS)), 2 * (2 * 128 * 64 * 256) / 8),
)  # fmt: skip
