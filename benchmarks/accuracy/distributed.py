"""Programs over 8 host devices: what one device computes and sends."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from benchmarks.accuracy.program import Program, ones

try:
    from jax import shard_map
except ImportError:  # before JAX 0.7
    from jax.experimental.shard_map import shard_map  # type: ignore[no-redef]  # the same, where it was before

MESH = Mesh(np.array(jax.devices()), ("x",))
ROWS, COLUMNS, WHOLE = PartitionSpec("x"), PartitionSpec(None, "x"), PartitionSpec()


def _placed(array: Any, spec: Any) -> Any:
    return jax.device_put(array, NamedSharding(MESH, spec))


def _mapped(name: str, function: Any, sent: float, result: Any = ROWS) -> Program:
    """A product of 128 × 64 rows in 8 shards with a 64 × 64 weight, and a collective."""
    mapped = shard_map(function, mesh=MESH, in_specs=(ROWS, WHOLE), out_specs=result)
    arguments = (_placed(ones(128, 64), ROWS), _placed(ones(64, 64), WHOLE))
    return Program(f"shard_map with {name}", mapped, arguments, matrix_flops=SHARD, bytes_sent=sent)


def _wanted(array: Any, spec: Any) -> Any:
    return lax.with_sharding_constraint(array, NamedSharding(MESH, spec))


def _jitted(
    name: str, function: Any, sent: float, given: Any = (ROWS, WHOLE), result: Any = ROWS, **rest: Any
) -> Program:
    """The same product under jit alone: XLA puts in the collectives that the shardings ask for."""
    options = {"out_shardings": NamedSharding(MESH, result)}
    arguments = (_placed(ones(128, 64), given[0]), _placed(ones(64, 64), given[1]))
    return Program(f"jit with {name}", function, arguments, SHARD, bytes_sent=sent, options=options, **rest)


SHARD = 2 * 16 * 64 * 64
PIECE, ALL = 16 * 64 * 4, 128 * 64 * 4  # bytes of one shard of the product, and of all of it
RING = [(device, (device + 1) % 8) for device in range(8)]


def _loss(w: Any, x: Any) -> Any:
    return jnp.mean((x @ w) ** 2)


PROGRAMS = (
    _mapped("all-gather", lambda x, w: lax.all_gather(x @ w, "x"), 7 / 8 * ALL),
    _mapped("all-reduce", lambda x, w: lax.psum(x @ w, "x"), 2 * 7 / 8 * PIECE, result=WHOLE),
    _mapped("reduce-scatter", lambda x, w: lax.psum_scatter(x @ w, "x", tiled=True), 7 / 8 * PIECE),
    _mapped("all-to-all", lambda x, w: lax.all_to_all(x @ w, "x", 0, 0, tiled=True), 7 / 8 * PIECE),
    _mapped("permutation", lambda x, w: lax.ppermute(x @ w, "x", RING), PIECE),
    _jitted("all-gather", lambda x, w: _wanted(x @ w, ROWS), 7 / 8 * ALL, result=WHOLE),
    _jitted("all-reduce", jnp.matmul, 2 * 7 / 8 * ALL, given=(COLUMNS, ROWS), result=WHOLE,
            formula="each device has 8 of the 64 terms of every sum"),
    _jitted("reduce-scatter", jnp.matmul, 2 * 7 / 8 * ALL, given=(COLUMNS, ROWS),
            formula="XLA's CPU compiler sums everywhere, and each device keeps its slice"),
    _jitted("all-to-all", lambda x, w: _wanted(x @ w, ROWS), 7 / 8 * PIECE, result=COLUMNS),
    _jitted("permutation", lambda x, w: jnp.roll(_wanted(x @ w, ROWS), 16, axis=0), PIECE),
    Program("data-parallel gradient", jax.grad(_loss), (_placed(ones(64, 64), WHOLE), _placed(ones(128, 64), ROWS)),
            2 * SHARD, bytes_sent=2 * 7 / 8 * 64 * 64 * 4, formula="the weight's gradient is summed over the devices"),
    Program("tensor-parallel MLP", lambda x, u, d: jax.nn.relu(x @ u) @ d,
            (_placed(ones(128, 64), WHOLE), _placed(ones(64, 256), COLUMNS), _placed(ones(256, 64), ROWS)),
            2 * (2 * 128 * 64 * 256) / 8, bytes_sent=2 * 7 / 8 * ALL),
)  # fmt: skip
