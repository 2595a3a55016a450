"""What `jaxobs demo` trains: a small transformer in plain JAX, written as users of jaxobs write theirs.

It predicts the next byte of the sources of the running Python, which every machine has. Layers are scanned, so that XLA
compiles one of them whatever their number, and each is rematerialised in the backward pass: the FLOPs that this repeats
are the difference between HFU and MFU.
"""

from __future__ import annotations

import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxobs import Observer
from jaxobs.vocabulary import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_text(folder: Path | None = None) -> NDArray[np.uint8]:
    """The Python sources in a folder, else those of Python's standard library, without the folders below.

    Raises InputError where there is too little to train on (they may be in a zip file, or compiled away).
    """
    folder = folder or Path(sysconfig.get_path("stdlib"))
    text = b"\n".join(file.read_bytes() for file in sorted(folder.glob("*.py")))
    if len(text) < 2**12:
        raise InputError(f"no Python sources to train on in {folder}")
    return np.frombuffer(text, np.uint8)


def windows(
    text: NDArray[np.uint8], examples: int, length: int, random: np.random.Generator
) -> NDArray[np.int32]:
    """A batch of windows at random places of the text.

    Returns:
        int32[examples, length + 1]: in each row `length` bytes, and the one that follows them, the last to predict.
    """
    starts = random.integers(0, len(text) - length, size=examples)
    places = starts[:, None] + np.arange(length + 1)
    return np.asarray(text[places], np.int32)


VOCABULARY = 256

Parameters: TypeAlias = dict[str, Any]
"""Arrays by name; those under `layers` have the layer as their first dimension."""


@dataclass(frozen=True, slots=True)
class Size:
    """Dimensions of the model and of a step, and the element type that it computes in; parameters stay float32."""

    width: int
    layers: int
    heads: int
    length: int
    """The number of bytes of context."""
    examples: int
    learning_rate: float
    dtype: str

    @property
    def tokens(self) -> int:
        """The number of tokens in one step."""
        return self.examples * self.length


SIZES = {
    "cpu": Size(width=128, layers=4, heads=4, length=128, examples=2, learning_rate=3e-4, dtype="float32"),
    "gpu": Size(
        width=768, layers=12, heads=12, length=512, examples=16, learning_rate=1e-4, dtype="bfloat16"
    ),
}
"""Sizes by JAX's default backend. On a CPU a step does 1.8 GFLOP, some 0.04 s on two cores, so that the shortest
profiler windows hold two of them; on a GPU 5 TFLOP in 4 GB of memory, some 20 ms on the largest of today."""


def default_size() -> Size:
    """The size for JAX's default backend, which is made if necessary; all but a CPU count as a GPU."""
    return SIZES["cpu" if jax.default_backend() == "cpu" else "gpu"]


def initial_parameters(random: np.random.Generator, size: Size) -> Parameters:
    """Random parameters, float32: normal, 0.02 wide as those of GPT-2 (Radford et al. 2019, §2.3)."""
    width, layers = size.width, size.layers
    shapes = {
        "tokens": (VOCABULARY, width),
        "positions": (size.length, width),
        "attention_in": (layers, width, 3 * width),
        "attention_out": (layers, width, width),
        "feed_forward_in": (layers, width, 4 * width),
        "feed_forward_out": (layers, 4 * width, width),
    }
    arrays = {name: 0.02 * random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    outer = {name: arrays.pop(name) for name in ("tokens", "positions")}
    norms = {name: np.ones((layers, width), np.float32) for name in ("attention_norm", "feed_forward_norm")}
    drawn = {**outer, "norm": np.ones(width, np.float32), "layers": arrays | norms}
    return dict(jax.tree.map(jnp.asarray, drawn))


def loss(parameters: Parameters, tokens: jax.Array, size: Size) -> jax.Array:
    """The mean cross entropy of each next byte, in nats, for `tokens` int32[examples, length + 1]."""
    odds = jax.nn.log_softmax(logits(parameters, tokens[:, :-1], size))
    right = jnp.take_along_axis(odds, tokens[:, 1:, None], axis=-1)
    return -jnp.mean(right)


def logits(parameters: Parameters, tokens: jax.Array, size: Size) -> jax.Array:
    """The logits of each next byte: float32[examples, length, VOCABULARY].

    Args:
        parameters: As `initial_parameters` makes them.
        tokens: int32[examples, length], with a length up to that of `size`.
        size: Heads and element type are taken from it.
    """
    dtype = jnp.dtype(size.dtype)
    stream = (parameters["tokens"][tokens] + parameters["positions"][: tokens.shape[1]]).astype(dtype)
    layers = jax.tree.map(lambda array: array.astype(dtype), parameters["layers"])

    @jax.checkpoint
    def layer(stream: jax.Array, weights: Parameters) -> tuple[jax.Array, None]:
        stream += _attention(_normalised(stream, weights["attention_norm"]), weights, size.heads)
        hidden = _normalised(stream, weights["feed_forward_norm"]) @ weights["feed_forward_in"]
        return stream + jax.nn.gelu(hidden) @ weights["feed_forward_out"], None

    stream, _ = jax.lax.scan(layer, stream, layers)
    stream = _normalised(stream, parameters["norm"].astype(dtype))
    odds: jax.Array = stream @ parameters["tokens"].T.astype(dtype)
    return odds.astype(jnp.float32)


def _attention(stream: jax.Array, weights: Parameters, heads: int) -> jax.Array:
    """Causal self-attention: [examples, length, width] to the same."""
    parts = jnp.split(stream @ weights["attention_in"], 3, axis=-1)
    query, key, value = (part.reshape(*part.shape[:2], heads, -1) for part in parts)
    mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    projected: jax.Array = mixed.reshape(stream.shape) @ weights["attention_out"]
    return projected


def _normalised(stream: jax.Array, scale: jax.Array) -> jax.Array:
    """Root-mean-square normalisation (Zhang and Sennrich 2019)."""
    mean_square = jnp.mean(jnp.square(stream.astype(jnp.float32)), axis=-1, keepdims=True)
    return (stream * jax.lax.rsqrt(mean_square + 1e-6)).astype(stream.dtype) * scale


@partial(jax.jit, static_argnums=2, donate_argnums=0)
def train_step(parameters: Parameters, tokens: jax.Array, size: Size) -> tuple[Parameters, jax.Array]:
    """One step on int32[examples, length + 1]: the new parameters, and the loss before it, nats. The old are donated.

    Each parameter moves by the learning rate, against the sign of its gradient (Bernstein et al. 2018, signSGD).
    """
    value, gradient = jax.value_and_grad(loss)(parameters, tokens, size)
    moved = jax.tree.map(lambda old, slope: old - size.learning_rate * jnp.sign(slope), parameters, gradient)
    return moved, value


_SHORT_SHARE = 1 / 3
"""Share of the time with twice as many windows of half the length: short contexts are learnt first and cheaply. The
change of shape makes XLA compile anew, as it does wherever the shape of a batch changes."""


def train(observer: Observer, text: NDArray[np.uint8], size: Size, seconds: float) -> None:
    """Train for so many seconds, without the first step."""
    step = observer.watch(train_step)
    with observer.phase("initialisation"):
        parameters = initial_parameters(np.random.default_rng(0), size)
    turns = observer.steps(batches(text, size, seconds), tokens=lambda batch: float(batch[:, 1:].size))
    for batch in turns:
        parameters, loss = step(parameters, batch, size)
        observer.record(loss=loss)
    loss.block_until_ready()


def batches(text: NDArray[np.uint8], size: Size, seconds: float) -> Iterator[NDArray[np.int32]]:
    """Batches of short windows, then of long ones, until the time is over; at least one of each."""
    random = np.random.default_rng(0)
    short, long = (2 * size.examples, size.length // 2), (size.examples, size.length)
    yield windows(text, *short, random)
    began = time.monotonic()  # after the first step, whose compile takes seconds or minutes
    for shape, until in ((short, _SHORT_SHARE * seconds), (long, seconds)):
        yield windows(text, *shape, random)
        while time.monotonic() - began < until:
            yield windows(text, *shape, random)
