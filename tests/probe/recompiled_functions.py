"""Functions and settings that differ from call to call, and where their arguments lie."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from tests.probe.recompiled import case, identity, mesh, row, step_of_two, x

try:
    enable_x64: Any = functools.partial(jax.enable_x64, True)  # since 0.8
except AttributeError:
    enable_x64 = importlib.import_module("jax.experimental").enable_x64


@case
def new_lambda_each_time() -> None:
    for _ in range(2):
        jax.jit(lambda x: x * 3)(x)


@case
def new_lambda_with_another_array_and_shape() -> None:
    for size in (8, 9):
        jax.jit(lambda x, w=jnp.ones(16): x * w)(jnp.ones((size, 16)))  # noqa: B008  # another each time


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
    older: Any = jax.sharding
    within = getattr(jax, "set_mesh", None) or older.use_mesh  # the former since 0.7
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
def new_partial_with_what_it_bound_before() -> None:
    def scaled(x: Any, by: float) -> Any:
        return x * by

    for _ in range(2):
        jax.jit(functools.partial(scaled, by=2.0))(x)


@case
def positional_argument_of_a_partial() -> None:
    def scaled(by: float, x: Any) -> Any:
        return x * by

    for by in (2.0, 3.0):
        jax.jit(functools.partial(scaled, by))(x)


def scaled_by(factor: float) -> Any:
    """A jitted closure."""

    @jax.jit
    def scale(x: Any) -> Any:
        return x * factor

    return scale


class Trainer:
    """One that jits its own method."""

    def __init__(self) -> None:
        self.step = jax.jit(self._step)

    def _step(self, x: Any) -> Any:
        return x * 2


@case
def another_closure_of_one_factory() -> None:
    double, triple = scaled_by(2.0), scaled_by(3.0)
    for step in (double, triple, double, triple):
        step(x)


@case
def the_method_of_another_object() -> None:
    one, other = Trainer(), Trainer()
    for trainer in (one, other, one, other):
        trainer.step(x)


@case
def gradients_of_two_closures_outside_jit() -> None:
    for step in (scaled_by(2.0), scaled_by(3.0)):
        jax.vjp(step, x)[1](x)


@case
def another_shape_for_one_of_two_closures() -> None:
    double, triple = scaled_by(2.0), scaled_by(3.0)
    longer = jnp.ones((9, 16))
    double(x)
    triple(longer)
    double(longer)


@case
def not_again_by_a_library_that_names_its_closures() -> None:
    for name in ("train", "evaluate"):

        def call(x: Any, name: str = name) -> Any:
            return x * len(name)

        call.__name__ = call.__qualname__ = name
        jax.jit(call)(x)
