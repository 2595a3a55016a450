"""Keras, its JAX backend: a classifier of images, trained by `fit` and by nothing of our own."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import time

import keras
import numpy as np
from truth import dense_flops, report, step

BATCH, EPOCHS, IMAGES = 256, 7, 256 * 50
generator = np.random.default_rng(0)
images = generator.standard_normal((IMAGES, 784), np.float32)
labels = generator.integers(0, 10, IMAGES)


class Clock(keras.callbacks.Callback):
    """Seconds and batches from the second epoch on: the first compiles."""

    batches = 0

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.began = time.perf_counter()

    def on_train_batch_begin(self, batch, logs=None):
        self.marked = step()
        self.marked.__enter__()

    def on_train_batch_end(self, batch, logs=None):
        self.marked.__exit__(None, None, None)
        self.batches += 1

    def on_train_end(self, logs=None):
        self.seconds = time.perf_counter() - self.began


keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.Input((784,)),
        keras.layers.Dense(1024, activation="relu"),
        keras.layers.Dense(1024, activation="relu"),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
clock = Clock()
history = model.fit(images, labels, batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=[clock])
print("loss", [round(loss, 4) for loss in history.history["loss"]])
report(
    "train_step", clock.batches * (EPOCHS - 1) // EPOCHS, clock.seconds, model.get_weights(),
    matrix_flops=dense_flops(BATCH, 784, 1024, 1024, 10),
)  # fmt: skip
