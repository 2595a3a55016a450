"""The model that the measured loops train."""

from __future__ import annotations

from typing import Any

LOSS_READ_EVERY = 10
"""As often as training scripts print their loss; the host runs ahead in between. Of long steps each one's is read."""

LONG_STEP_MILLISECONDS = 50.0

TARGETS = {0.1: (88, 2), 1.0: (320, 1), 10.0: (512, 2), 100.0: (1024, 3)}
"""Width and layers of the model for steps of about so many milliseconds on two cores."""


def train_step(width: int, layers: int) -> tuple[Any, Any, Any]:
    """A jitted step of a small multilayer perceptron, its weights and its batch."""
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, batch: Any) -> Any:
        hidden = batch
        for _ in range(layers):
            hidden = jnp.tanh(hidden @ weights)
        return jnp.mean((hidden - batch) ** 2)

    def step(weights: Any, batch: Any) -> Any:
        value, slope = jax.value_and_grad(loss)(weights, batch)
        return weights - 0.001 * slope, value

    key = jax.random.key(0)
    weights = jax.random.normal(key, (width, width)) / width
    batch = jax.random.normal(key, (width, width)) / width
    return jax.jit(step, donate_argnums=0), weights, batch
