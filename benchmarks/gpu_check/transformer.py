"""A decoder-only transformer whose matrix FLOPs are known in closed form: what the training checks run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

Attention = Literal["xla", "cudnn"]
"""Implementations of `jax.nn.dot_product_attention`; cuDNN's is flash attention, on GPUs alone."""


class Shape(NamedTuple):
    """Sizes of the model and of one batch."""

    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    batch: int
    length: int

    @property
    def tokens(self) -> int:
        """Of one step."""
        return self.batch * self.length

    @property
    def layer_parameters(self) -> int:
        """Those of one layer that are in matrix products: queries, keys, values, output, and two of the MLP."""
        return 4 * self.width**2 + 2 * self.width * self.hidden

    @property
    def product_parameters(self) -> int:
        """N of 6ND: those in matrix products. The embedding is looked up, the logits are a product."""
        return self.layers * self.layer_parameters + self.width * self.vocabulary

    def attention_flops(self, attention: Attention) -> int:
        """Scores and their product with the values, of the forward pass of one step, causal.

        XLA computes all pairs and masks half of them; cuDNN those that the mask admits.
        """
        pairs = self.length**2 if attention == "xla" else self.length * (self.length + 1) // 2
        return 4 * self.layers * self.batch * pairs * self.width

    def model_flops(self, attention: Attention) -> int:
        """Matrix FLOPs of one training step without rematerialised ones: 6ND, and three passes over the attention.

        6ND is of Kaplan et al. 2020, arXiv:2001.08361, section 2.1.
        """
        return 6 * self.product_parameters * self.tokens + 3 * self.attention_flops(attention)

    def rematerialized_flops(self, attention: Attention) -> int:
        """Matrix FLOPs done again in the backward pass where each layer is checkpointed.

        The forward pass of each layer without its last product, of which no gradient needs the result; and in cuDNN's
        backward attention the scores once more (Dao 2023, arXiv:2307.08691, section 2.3.1).
        """
        layer = 2 * (self.layer_parameters - self.width * self.hidden) * self.tokens
        again = 0.5 if attention == "cudnn" else 0.0
        return round(self.layers * layer + (1 + again) * self.attention_flops(attention))


LARGE = Shape(layers=24, width=1024, heads=16, hidden=4096, vocabulary=32768, batch=16, length=1024)
"""336 million parameters in products; 33 TFLOP of 6ND a step, some 80 ms on an H200 at 40 % of its peak."""

SMALL = Shape(layers=2, width=64, heads=4, hidden=256, vocabulary=512, batch=4, length=64)
"""For a CPU: milliseconds a step."""


def batch_of(shape: Shape, seed: int) -> Any:
    """Random tokens, `length` + 1 of each row, on the device."""
    import jax

    return jax.random.randint(jax.random.key(seed), (shape.batch, shape.length + 1), 0, shape.vocabulary)


class Started(NamedTuple):
    """A step that has run once; `complaint` says why it is not with the attention that was asked for."""

    step: Callable[..., Any]
    state: Any
    attention: Attention
    complaint: str


def start(shape: Shape, attention: Attention, batch: Any) -> Started:
    """Compile the step and run it once; where cuDNN is not to be had, with XLA's attention."""
    import jax

    complaint = ""
    if attention == "cudnn":
        try:
            step, state = train_step(shape, attention)
            return Started(step, jax.block_until_ready(step(state, batch))[0], attention, "")
        except Exception as error:  # noqa: BLE001  # whatever the library raises, the rest can be measured without it
            complaint = f"no cuDNN attention: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    step, state = train_step(shape, "xla")
    return Started(step, jax.block_until_ready(step(state, batch))[0], "xla", complaint)


READ_EVERY = 10
"""Steps between two looks at the loss: in between the host runs ahead, as most training does."""


def train(
    step: Any, state: Any, batch: Any, turns: Iterable[object], record: Callable[..., object] = dict
) -> tuple[int, float]:
    """How many steps there were, and the seconds of one in the later half, by the loop's own clock.

    Raises RuntimeError where there are too few steps to tell.
    """
    marks, number = [], 0
    for number, _ in enumerate(turns, 1):
        state, loss = step(state, batch)
        record(loss=loss)
        if number % READ_EVERY == 0:
            loss.block_until_ready()
            marks.append((number, time.perf_counter()))
    if len(marks) < 2:
        raise RuntimeError(f"{number} steps ended: too few to tell a step time from")
    (first, began), (last, ended) = marks[(len(marks) - 1) // 2], marks[-1]
    return number, (ended - began) / (last - first)


def train_step(shape: Shape, attention: Attention) -> tuple[Callable[..., Any], Any]:
    """A jitted step `step(state, batch)` that gives state and loss, its state donated, and the first state.

    Parameters and Adam's moments are float32, products bfloat16 with float32 sums. The layers are a `lax.scan`, each
    checkpointed.
    """
    import jax
    import jax.numpy as jnp

    draw = jax.random.split(jax.random.key(0), 8)

    def weights(key: Any, *size: int) -> Any:
        return jax.random.normal(key, size, jnp.float32) * size[-2] ** -0.5

    deep, wide = shape.layers, shape.width
    parameters = {
        "embedding": weights(draw[0], shape.vocabulary, wide),
        "logits": weights(draw[1], wide, shape.vocabulary),
        "layers": {
            "query": weights(draw[2], deep, wide, wide),
            "key": weights(draw[3], deep, wide, wide),
            "value": weights(draw[4], deep, wide, wide),
            "output": weights(draw[5], deep, wide, wide),
            "up": weights(draw[6], deep, wide, shape.hidden),
            "down": weights(draw[7], deep, shape.hidden, wide),
        },
    }
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    state = {"parameters": parameters, "mean": zeros, "square": jax.tree.map(jnp.copy, zeros)}

    def normal(x: Any) -> Any:
        exact = x.astype(jnp.float32)
        return (exact * jax.lax.rsqrt(jnp.mean(exact**2, axis=-1, keepdims=True) + 1e-6)).astype(jnp.bfloat16)

    def product(x: Any, matrix: Any) -> Any:
        return jnp.matmul(x, matrix.astype(jnp.bfloat16))

    def layer(x: Any, one: Any) -> tuple[Any, None]:
        split = (shape.batch, shape.length, shape.heads, wide // shape.heads)
        with jax.named_scope("attention"):
            within = normal(x)
            query, key, value = (
                product(within, one[name]).reshape(split) for name in ("query", "key", "value")
            )
            mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True, implementation=attention)
            x = x + product(mixed.reshape(x.shape), one["output"])
        with jax.named_scope("mlp"):
            x = x + product(jax.nn.gelu(product(normal(x), one["up"])), one["down"])
        return x, None

    def loss_of(now: Any, tokens: Any) -> Any:
        x = now["embedding"][tokens[:, :-1]].astype(jnp.bfloat16)
        x, _ = jax.lax.scan(jax.checkpoint(layer), x, now["layers"])
        logits = product(normal(x), now["logits"]).astype(jnp.float32)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)
        return -jnp.mean(chosen)

    def step(state: Any, tokens: Any) -> tuple[Any, Any]:
        loss, slope = jax.value_and_grad(loss_of)(state["parameters"], tokens)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], slope)
        square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, state["square"], slope)
        parameters = jax.tree.map(
            lambda p, m, s: p - 1e-4 * m / (jnp.sqrt(s) + 1e-8), state["parameters"], mean, square
        )
        return {"parameters": parameters, "mean": mean, "square": square}, loss

    return jax.jit(step, donate_argnums=0), state
