"""Flax nnx: a classifier with dropout and metrics that are state, trained and evaluated in turn."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from truth import dense_flops, report, steps, watch

BATCH, TRAINING, EVERY, TESTS = 128, 1000, 50, 8


class MLP(nnx.Module):
    """Two hidden layers."""

    def __init__(self, *, rngs):
        self.linear1 = nnx.Linear(512, 1024, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.linear2 = nnx.Linear(1024, 1024, rngs=rngs)
        self.linear3 = nnx.Linear(1024, 10, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.linear1(x))
        x = nnx.relu(self.linear2(self.dropout(x)))
        return self.linear3(x)


def loss_fn(model, batch):
    logits = model(batch["x"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean(), logits


@nnx.jit
def train_step(model, optimizer, metrics, batch):
    (loss, logits), grads = nnx.value_and_grad(loss_fn, has_aux=True)(model, batch)
    metrics.update(loss=loss, logits=logits, labels=batch["y"])
    optimizer.update(model, grads)


@nnx.jit
def eval_step(model, metrics, batch):
    loss, logits = loss_fn(model, batch)
    metrics.update(loss=loss, logits=logits, labels=batch["y"])


train_step, eval_step = watch(train_step), watch(eval_step)


def batches(count, seed):
    generator = np.random.default_rng(seed)
    for _ in range(count):
        yield {
            "x": generator.standard_normal((BATCH, 512), np.float32),
            "y": generator.integers(0, 10, BATCH),
        }


model = MLP(rngs=nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
metrics = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))

began = evaluating = 0.0
for number, batch in enumerate(steps(batches(TRAINING, 0)), start=1):
    model.train()
    train_step(model, optimizer, metrics, batch)
    if number % EVERY == 0:
        trained = metrics.compute()
        metrics.reset()
        jax.block_until_ready(trained)  # else the device trains on in the time of the evaluation
        paused = time.perf_counter()
        model.eval()
        for test in steps(batches(TESTS, 1), loop="eval"):
            eval_step(model, metrics, test)
        tested = metrics.compute()
        metrics.reset()
        evaluating += time.perf_counter() - paused
        print(number, *(f"{float(jnp.asarray(value)):.4f}" for value in (trained["loss"], tested["loss"])))
    if number == EVERY:  # all is compiled: the steps, the evaluation, and what the metrics compute eagerly
        began, evaluating = time.perf_counter(), 0.0
seconds = time.perf_counter() - began - evaluating
report(
    "train_step", TRAINING - EVERY, seconds, nnx.state(model, nnx.Param),
    matrix_flops=dense_flops(BATCH, 512, 1024, 1024, 10), evaluation="eval_step",
)  # fmt: skip
