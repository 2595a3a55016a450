"""Ways to make JAX compile a function again, each run in real JAX on eight host devices; prints what was said of each.

Run by `test_recompile_causes.py` in a process of its own: the devices are made before JAX starts. One file beyond 300
lines, as it is a table, a few lines a case, to be read from top to bottom.
"""

from __future__ import annotations

import collections
import functools
import json
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from conftest import Observed  # the folder of the tests is on the path
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from jaxobs.model import events

try:
    enable_x64: Any = functools.partial(jax.enable_x64, True)  # since 0.8
except AttributeError:
    from jax.experimental import enable_x64
x = jnp.ones((8, 16))
row = jnp.ones((16,))
mesh = Mesh(np.array(jax.devices()), ("data",))
CASES: dict[str, Any] = {}


class Pair(NamedTuple):
    left: Any
    right: Any


class Hostile:
    """As a user's static argument may be: nothing but JAX may compare or hash it, and nobody may print it."""

    quiet = True

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        raise AssertionError("printed")

    def __eq__(self, other: object) -> bool:
        assert sys._getframe(1).f_globals["__name__"].partition(".")[0] != "jaxobs_plugins"
        return isinstance(other, Hostile) and self.number == other.number

    def __hash__(self) -> int:
        assert sys._getframe(1).f_globals["__name__"].partition(".")[0] != "jaxobs_plugins"
        return hash(self.number)

    def __getattr__(self, name: str) -> Any:
        assert sys._getframe(1).f_globals["__name__"].partition(".")[0] != "jaxobs_plugins", name
        raise AttributeError(name)


class Text(str):
    """A user's type, though derived from one of Python's."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise AssertionError("printed")


@jax.tree_util.register_pytree_node_class
class Layer:
    def __init__(self, weights: Any, activation: Any) -> None:
        self.weights, self.activation = weights, activation

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return (self.weights,), self.activation

    @classmethod
    def tree_unflatten(cls, activation: Any, children: tuple[Any, ...]) -> Layer:
        return cls(*children, activation)


@dataclass(frozen=True)
class Model:
    width: int

    @functools.partial(jax.jit, static_argnums=0)
    def apply(self, x: Any) -> Any:
        return x * self.width


def case(run: Any) -> Any:
    CASES[run.__name__] = run
    return run


def step_of_two() -> Any:
    @jax.jit
    def step(x: Any, scale: Any) -> Any:
        return x * scale

    return step


def step_of_a_tree() -> Any:
    @jax.jit
    def step(params: Any, x: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf * 2, params), x

    return step


def identity() -> Any:
    @jax.jit
    def step(x: Any) -> Any:
        return x * 2

    return step


@case
def shape() -> None:
    step = identity()
    step(x)
    step(jnp.ones((9, 16)))


@case
def last_partial_batch() -> None:
    @jax.jit
    def step(params: Any, batch: Any) -> Any:
        return (batch["image"] @ params["w"]).sum() + batch["label"].sum()

    params = {"w": jnp.ones((16, 4))}
    for size in (8, 8, 5):
        step(params, {"image": jnp.ones((size, 16)), "label": jnp.ones((size,))})


@case
def dtype() -> None:
    step = identity()
    step(x)
    step(x.astype(jnp.bfloat16))


@case
def weak_type_of_a_python_scalar() -> None:
    step = step_of_two()
    step(x, 1.0)
    step(x, jnp.float32(1.0))


@case
def python_int_and_float() -> None:
    step = step_of_two()
    step(x, 1)
    step(x, 1.0)


@case
def numpy_scalar_and_python_scalar() -> None:
    step = step_of_two()
    step(x, np.float32(1.0))
    step(x, 1.0)


@case
def key_added_to_a_dictionary() -> None:
    step = step_of_a_tree()
    step({"dense": {"w": row}}, x)
    step({"dense": {"w": row, "b": row}}, x)


@case
def longer_list() -> None:
    step = step_of_a_tree()
    step([row, row], x)
    step([row, row, row], x)


@case
def none_or_an_array() -> None:
    @jax.jit
    def masked(x: Any, mask: Any) -> Any:
        return x if mask is None else x * mask

    masked(x, None)
    masked(x, row)


@case
def tuple_or_named_tuple() -> None:
    step = step_of_a_tree()
    step((row, row), x)
    step(Pair(row, row), x)


@case
def dictionary_or_ordered_dictionary() -> None:
    step = step_of_a_tree()
    step({"w": row}, x)
    step(collections.OrderedDict(w=row), x)


@case
def auxiliary_data_of_a_users_node() -> None:
    step = step_of_a_tree()
    step({"layer": Layer(row, "relu")}, x)
    step({"layer": Layer(row, "tanh")}, x)


@case
def static_argument_by_number() -> None:
    @functools.partial(jax.jit, static_argnums=1)
    def repeat(x: Any, times: int) -> Any:
        return jnp.concatenate([x] * times)

    repeat(x, 2)
    repeat(x, 3)


@case
def static_argument_by_name() -> None:
    @functools.partial(jax.jit, static_argnames=("mode",))
    def step(x: Any, mode: str = "train") -> Any:
        return x * 2 if mode == "train" else x

    step(x, mode="train")
    step(x, mode="eval")


@case
def static_argument_that_is_not_a_number() -> None:
    @functools.partial(jax.jit, static_argnums=1)
    def step(x: Any, scale: float) -> Any:
        return x * scale

    step(x, float("nan"))
    step(x, float("nan"))


@case
def shape_of_a_pmapped_function() -> None:
    def step(x: Any) -> Any:
        return x * 2

    mapped = jax.pmap(step)
    mapped(x)
    mapped(np.ones((8, 17), np.float32))


@case
def static_argument_of_a_pmapped_function() -> None:
    @functools.partial(jax.pmap, static_broadcasted_argnums=1)
    def step(x: Any, times: int) -> Any:
        return x * times

    step(x, 2)
    step(x, 3)


@case
def pmapped_arrays_that_lie_on_the_devices_by_then() -> None:
    step = jax.pmap(lambda x: x * 2)
    step(step(x))


@case
def axes_of_pmap() -> None:
    def step(x: Any, y: Any) -> Any:
        return x * y.sum()

    jax.pmap(step)(x, x)
    jax.pmap(step, in_axes=(0, None))(x, x)


@case
def static_argument_of_a_users_type() -> None:
    @functools.partial(jax.jit, static_argnames=("config",))
    def step(x: Any, config: Any) -> Any:
        return x * config.number

    step(x, config=Hostile(1))
    step(x, config=Hostile(2))


@case
def equal_static_argument_of_a_users_type_and_another_shape() -> None:
    @functools.partial(jax.jit, static_argnums=0)
    def step(config: Any, x: Any) -> Any:
        return x * config.number

    step(Hostile(1), x)
    step(Hostile(1), jnp.ones((9, 16)))


@case
def static_text_of_a_users_type() -> None:
    @functools.partial(jax.jit, static_argnums=1)
    def step(x: Any, mode: str) -> Any:
        return x * len(mode)

    step(x, Text("a"))
    step(x, Text("bc"))


@case
def static_self_of_a_method() -> None:
    Model(2).apply(x)
    Model(3).apply(x)


@case
def new_lambda_each_time() -> None:
    for _ in range(2):
        jax.jit(lambda x: x * 3)(x)


@case
def new_partial_each_time() -> None:
    def scaled(x: Any, by: float) -> Any:
        return x * by

    for by in (2.0, 3.0):
        jax.jit(functools.partial(scaled, by=by))(x)


@case
def jit_in_a_loop() -> None:
    for _ in range(2):

        @jax.jit
        def inner(x: Any) -> Any:
            return x - 1

        inner(x)


@case
def function_defined_anew() -> None:
    for body in ("x + 1", "x + 2"):
        module: dict[str, Any] = {"__name__": "notebook"}
        exec(compile(f"def cell(x):\n    return {body}", f"<cell {body}>", "exec"), module)
        jax.jit(module["cell"])(x)


@case
def options_of_jit() -> None:
    def step(x: Any) -> Any:
        return x * 5

    jax.jit(step)(x)
    jax.jit(step, donate_argnums=0)(jnp.ones((8, 16)))


@case
def enable_x64_context() -> None:
    step = identity()
    step(x)
    with enable_x64():
        step(x)


@case
def enable_x64_with_python_scalars() -> None:
    step = step_of_two()
    step(x, 1.0)
    with enable_x64():
        step(x, 1.0)


@case
def default_matmul_precision() -> None:
    step = identity()
    step(x)
    with jax.default_matmul_precision("highest"):
        step(x)


@case
def numpy_dtype_promotion() -> None:
    step = identity()
    step(x)
    with jax.numpy_dtype_promotion("strict"):
        step(x)


@case
def default_device() -> None:
    step = identity()
    host = np.ones((8, 16), np.float32)
    step(host)
    with jax.default_device(jax.devices()[1]):
        step(host)


@case
def mesh_context() -> None:
    step = identity()
    step(x)
    with mesh:
        step(x)


@case
def mesh_set_for_a_thread() -> None:
    step = identity()
    step(x)
    within = getattr(jax, "set_mesh", None) or jax.sharding.use_mesh  # the former since 0.7
    with within(mesh):
        step(x)


@case
def sharding_over_devices() -> None:
    step = step_of_two()
    step(x, row)
    step(jax.device_put(x, NamedSharding(mesh, PartitionSpec("data"))), row)


@case
def another_partition() -> None:
    step = step_of_two()
    replicated = jax.device_put(row, NamedSharding(mesh, PartitionSpec()))
    step(jax.device_put(x, NamedSharding(mesh, PartitionSpec("data", None))), replicated)
    step(jax.device_put(x, NamedSharding(mesh, PartitionSpec(None, "data"))), replicated)


@case
def another_partition_of_an_explicit_mesh() -> None:
    explicit = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Explicit,))
    step = identity()
    step(jax.device_put(x, NamedSharding(explicit, PartitionSpec("data", None))))
    step(jax.device_put(x, NamedSharding(explicit, PartitionSpec(None, "data"))))


@case
def another_device() -> None:
    step = identity()
    step(jax.device_put(x, jax.devices()[0]))
    step(jax.device_put(x, jax.devices()[1]))


@case
def committed_or_not() -> None:
    step = identity()
    step(x)
    step(jax.device_put(x, SingleDeviceSharding(jax.devices()[0])))


@case
def by_keyword_or_by_position() -> None:
    step = step_of_two()
    step(x, row)
    step(x, scale=row)


@case
def optional_argument_given() -> None:
    @jax.jit
    def step(x: Any, bias: Any = 0.0) -> Any:
        return x + bias

    step(x)
    step(x, row)


@case
def typed_and_raw_random_keys() -> None:
    @jax.jit
    def draw(key: Any) -> Any:
        return jax.random.normal(key, (3,))

    draw(jax.random.PRNGKey(0))
    draw(jax.random.key(0))


@case
def one_of_many_positional_arguments() -> None:
    @jax.jit
    def step(*args: Any) -> Any:
        return [arg * 2 for arg in args]

    step(row, row, row)
    step(row, jnp.ones((17,)), row)


@case
def one_of_any_keyword_arguments() -> None:
    @jax.jit
    def step(**batch: Any) -> Any:
        return {name: value * 2 for name, value in batch.items()}

    step(image=row, label=row)
    step(image=row, label=jnp.ones((17,)))


@case
def nearest_of_several() -> None:
    step = step_of_two()
    step(x, row)
    step(x.astype(jnp.bfloat16), row.astype(jnp.bfloat16))
    step(jnp.ones((9, 16)), row)


@case
def gradient_outside_jit() -> None:
    @jax.jit
    def loss(w: Any) -> Any:
        return (w**2).sum()

    jax.grad(loss)(x)
    jax.grad(loss)(jnp.ones((9, 16)))


@case
def ahead_of_time() -> None:
    step = identity()
    step.lower(x).compile()
    step.lower(jnp.ones((9, 16))).compile()


@case
def caches_cleared() -> None:
    step = identity()
    step(x)
    jax.clear_caches()
    step(x)


@case
def not_again_by_the_order_of_keys() -> None:
    step = step_of_a_tree()
    step({"a": row, "b": row}, x)
    step({"b": row, "a": row}, x)


@case
def not_again_by_two_functions_of_one_name() -> None:
    jax.jit(lambda x: x + 31)(x)
    jax.jit(lambda x: x + 32)(x)
    identity()  # never called


def main() -> None:
    observed = Observed()
    observed.side.start_probes()
    told = {}
    for name, run in CASES.items():
        observed.of()
        observed.events.clear()
        run()
        told[name] = [
            (event.function, event.recompilation, dict(event.attributes))
            for event in observed.of(events.Compilation)
            if event.function != "(eager)"
        ]
    observed.side.stop(0.0)
    failures = sum(source.guard.failures for source in observed.side.sources)
    print(json.dumps({"version": jax.__version__, "failures": failures, "log": observed.log, "told": told}))


if __name__ == "__main__":
    main()
