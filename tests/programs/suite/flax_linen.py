"""Flax linen and optax: a convolutional classifier with a `TrainState`, the loss read once an epoch."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.training import train_state
from truth import report, steps, watch

BATCH, EPOCHS, BATCHES = 32, 26, 30


class CNN(nn.Module):
    """Two convolutions and two dense layers."""

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(features=32, kernel_size=(3, 3))(x))
        x = nn.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(features=64, kernel_size=(3, 3))(x))
        x = nn.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        x = nn.relu(nn.Dense(features=256)(x))
        return nn.Dense(features=10)(x)


@watch
@jax.jit
def train_step(state, batch):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, batch["image"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean(), logits

    (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    accuracy = jnp.mean(jnp.argmax(logits, -1) == batch["label"])
    return state.apply_gradients(grads=grads), {"loss": loss, "accuracy": accuracy}


def train_epoch(state, dataset, rng):
    order = np.random.default_rng(rng).permutation(BATCHES * BATCH).reshape(BATCHES, BATCH)
    metrics = []
    for rows in steps(order):
        state, result = train_step(state, {name: values[rows] for name, values in dataset.items()})
        metrics.append(result)
    return state, np.mean([jax.device_get(result)["loss"] for result in metrics])


generator = np.random.default_rng(0)
dataset = {
    "image": generator.standard_normal((BATCHES * BATCH, 28, 28, 1), np.float32),
    "label": generator.integers(0, 10, BATCHES * BATCH),
}
model = CNN()
params = model.init(jax.random.key(0), jnp.ones((1, 28, 28, 1)))["params"]
state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.sgd(0.05, momentum=0.9))

state, loss = train_epoch(state, dataset, 0)
print("epoch 0", f"{loss:.4f}")
began = time.perf_counter()
for epoch in range(1, EPOCHS):
    state, loss = train_epoch(state, dataset, epoch)
    print("epoch", epoch, f"{loss:.4f}")
report("train_step", BATCHES * (EPOCHS - 1), time.perf_counter() - began, state.params)
