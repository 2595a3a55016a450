"""Grain: a `DataLoader` with two worker processes, whose transformation takes longer than the step does."""

import itertools
import time

import grain.python as grain
import jax
import jax.numpy as jnp
import numpy as np
from absl import app
from truth import dense_flops, report, steps, watch

BATCH, STEPS, WIDTHS = 64, 300, (256, 256, 10)


class Images:
    """A source of random access."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        generator = np.random.default_rng(int(index))
        return {
            "image": generator.standard_normal(WIDTHS[0]).astype(np.float32),
            "label": generator.integers(0, 10),
        }


class Augment(grain.RandomMapTransform):
    """Half a millisecond of each example: what decoding an image takes."""

    def random_map(self, element, rng):
        time.sleep(5e-4)
        noise = rng.standard_normal(WIDTHS[0]).astype(np.float32)
        return {**element, "image": element["image"] + 0.1 * noise}


def loss_fn(params, batch):
    x = batch["image"]
    for weights in params[:-1]:
        x = jnp.tanh(x @ weights)
    logits = x @ params[-1]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), batch["label"][:, None], axis=1))


@jax.jit
def train_step(params, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    return [p - 0.1 * g for p, g in zip(params, grads, strict=True)], loss


def main(_):
    sampler = grain.IndexSampler(
        num_records=len(Images()), shuffle=True, seed=0, shard_options=grain.NoSharding(), num_epochs=None
    )
    loader = grain.DataLoader(
        data_source=Images(), sampler=sampler, worker_count=2,
        operations=[Augment(), grain.Batch(batch_size=BATCH, drop_remainder=True)],
    )  # fmt: skip
    step = watch(train_step)
    generator = np.random.default_rng(0)
    params = [
        generator.standard_normal((inner, outer), np.float32) / inner**0.5
        for inner, outer in itertools.pairwise(WIDTHS)
    ]
    began = seconds = 0.0
    for number, batch in enumerate(steps(loader)):
        params, loss = step(params, batch)
        if number == 0:
            began = time.perf_counter()
        if number % 50 == 0:
            print(number, f"{loss:.5f}")
        if number == STEPS:  # and not after the loop, where Grain waits for its workers to end
            jax.block_until_ready(params)
            seconds = time.perf_counter() - began
            break
    report("train_step", STEPS, seconds, params, matrix_flops=dense_flops(BATCH, *WIDTHS))


if __name__ == "__main__":
    app.run(main)  # reads the flags that Grain's workers ask for
