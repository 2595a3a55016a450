"""Ways to make JAX compile a function again, each run in real JAX on eight host devices; prints what was said of each.

Run by `test_recompile_causes.py` in a process of its own: the devices are made before JAX starts.
"""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp

import tests.probe.recompiled_arguments
import tests.probe.recompiled_functions  # noqa: F401  # each adds its cases
from jaxobs.model import events
from tests.probe.conftest import Observed
from tests.probe.recompiled import CASES, case, identity, row, step_of_a_tree, step_of_two, x


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
def gradient_of_each_example_outside_jit() -> None:
    @jax.jit
    def loss(w: Any) -> Any:
        return (w**2).sum()

    jax.vmap(jax.grad(loss))(x)
    jax.vmap(jax.grad(loss))(jnp.ones((9, 16)))


@case
def not_again_by_passes_of_a_gradient() -> None:
    @jax.jit
    def loss(w: Any) -> Any:
        return jnp.sum(jnp.tanh(w) ** 2)

    loss(row)
    for _ in range(2):
        jax.grad(loss)(row)
        jax.vmap(jax.grad(loss))(x)
        jax.vmap(jax.value_and_grad(loss))(x)


@case
def not_again_by_transformations_of_transformations() -> None:
    @jax.jit
    def loss(w: Any) -> Any:
        return jnp.sum(jnp.tanh(w) ** 2)

    loss(row)
    for _ in range(2):
        jax.hessian(loss)(row)
        jax.vmap(jax.hessian(loss))(x)
        jax.linearize(loss, row)[1](row)


@case
def not_again_by_a_gradient_of_a_gradient() -> None:
    @jax.jit
    def loss(w: Any) -> Any:
        return jnp.sum(jnp.tanh(w) ** 2)

    loss(row)
    for _ in range(2):
        jax.grad(jax.grad(lambda scale: loss(scale * row)))(2.0)


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
