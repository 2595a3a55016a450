"""Networks, forward and backward."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.accuracy.convolutions import met
from benchmarks.accuracy.program import Program, ones

B, D, H = 128, 64, 256
W1, W2 = 2 * B * D * H, 2 * B * H * D


def mlp(weights: Any, x: Any) -> Any:
    """Two layers."""
    return jax.nn.gelu(x @ weights[0]) @ weights[1]


def _loss(weights: Any, x: Any) -> Any:
    return jnp.mean(mlp(weights, x) ** 2)


def _step(weights: Any, x: Any) -> Any:
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(_loss)(weights, x))


WEIGHTS, BATCH = (ones(D, H), ones(H, D)), ones(B, D)

# A transformer of L layers: T tokens of width E in B2 sequences, four heads, feed-forward 4 E.
L, B2, T, E, HEADS = 3, 2, 32, 64, 4
LAYER = 2 * B2 * T * (4 * E * E + 2 * E * 4 * E) + 2 * 2 * B2 * T * T * E


def _layer(p: Any, x: Any) -> Any:
    heads = (B2, T, HEADS, E // HEADS)
    q, k, v = ((x @ p[name]).reshape(heads) for name in ("q", "k", "v"))
    scores = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / 4.0)
    mixed = jnp.einsum("bhts,bshd->bthd", scores, v).reshape(B2, T, E)
    x = x + mixed @ p["o"]
    return x + jax.nn.gelu(x @ p["up"]) @ p["down"]


def _transformer(policy: Any = None, *, remat: bool = False) -> Any:
    layer = jax.checkpoint(_layer, policy=policy) if remat else _layer

    def loss(p: Any, x: Any) -> Any:
        y = lax.scan(lambda carry, weights: (layer(weights, carry), None), x, p)[0]
        return jnp.mean(y.astype(jnp.float32) ** 2)

    return loss


def _parameters(dtype: Any = jnp.float32) -> Any:
    shapes = dict.fromkeys("qkvo", (L, E, E)) | {"up": (L, E, 4 * E), "down": (L, 4 * E, E)}
    return {name: ones(*shape, dtype=dtype) for name, shape in shapes.items()}


PARAMETERS, TOKENS = _parameters(), ones(B2, T, E)
LOW = (_parameters(jnp.bfloat16), ones(B2, T, E, dtype=jnp.bfloat16))


def _mixed_precision(p: Any, x: Any) -> Any:
    return _transformer()(jax.tree.map(lambda w: w.astype(jnp.bfloat16), p), x.astype(jnp.bfloat16))


def _lstm(p: Any, xs: Any) -> Any:
    def cell(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ p[0] + h @ p[1], 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    return jnp.sum(lax.scan(cell, (jnp.zeros((8, 32)),) * 2, xs)[0][0])


LSTM = 20 * 2 * 8 * (16 + 32) * 128
LSTM_PARAMETERS, SERIES = (ones(16, 128), ones(32, 128)), ones(20, 8, 16)


def _switch_layer(router: Any, experts: Any, x: Any) -> Any:
    """Four experts by one-hot dispatch, each with a capacity of 32 tokens."""
    gates = jax.nn.one_hot(jnp.argmax(x @ router, -1), 4)
    place = (jnp.cumsum(gates, 0) - 1) * gates
    dispatch = gates[..., None] * jax.nn.one_hot(place, 32)
    given = jnp.einsum("tec,td->ecd", dispatch, x)
    return jnp.einsum("tec,ecd->td", dispatch, jnp.einsum("ecd,edf->ecf", given, experts))


def _ragged_layer(router: Any, experts: Any, x: Any) -> Any:
    """Four experts, each on the tokens that chose it, sorted by expert so that one grouped product serves all."""
    chosen = jnp.argmax(x @ router, -1)
    order = jnp.argsort(chosen)
    given = x[order]
    results = lax.ragged_dot(given, experts, jnp.bincount(chosen, length=4).astype(jnp.int32))
    return jnp.zeros_like(results).at[order].set(results)


def _convolutional_network(p: Any, x: Any) -> Any:
    """Two convolutions with pooling, and a classifier, on 28 × 28 images of one channel."""
    for kernel in p[:2]:
        x = jax.nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "SAME"))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return jax.nn.log_softmax(x.reshape(x.shape[0], -1) @ p[2])


CNN_PARAMETERS = (ones(8, 1, 3, 3), ones(16, 8, 3, 3), ones(16 * 7 * 7, 10))
IMAGES = ones(4, 1, 28, 28)
_FIRST = 2 * 4 * 8 * 1 * met(28, 3, low=1, high=1) ** 2
_SECOND = 2 * 4 * 16 * 8 * met(14, 3, low=1, high=1) ** 2
_LAST = 2 * 4 * 784 * 10

_SWITCH = 2 * B * D * 4 + 2 * (2 * B * 4 * 32 * D) + 2 * 4 * 32 * D * D

PROGRAMS = (
    Program("MLP", mlp, (WEIGHTS, BATCH), W1 + W2),
    Program("MLP, gradient", jax.grad(_loss), (WEIGHTS, BATCH), 2 * (W1 + W2) + W2,
            formula="forward, both weight gradients, one activation gradient"),
    Program("MLP, training step with donation", _step, (WEIGHTS, BATCH), 2 * (W1 + W2) + W2,
            options={"donate_argnums": 0}),
    Program("MLP, vmap of grad", jax.vmap(jax.grad(_loss), (None, 0)), (WEIGHTS, ones(10, 16, D)),
            10 * (2 * (W1 + W2) + W2) * 16 / B),
    Program("Hessian-vector product", lambda w, v, x: jax.jvp(lambda u: jax.grad(_loss)((u, WEIGHTS[1]), x)[0],
            (w,), (v,))[1], (WEIGHTS[0], WEIGHTS[0], BATCH), 2 * W1 + W2 * 4 + W1,
            formula="x W, x V, forward and tangent of the second layer, its two gradients, the weight gradient"),
    Program("Jacobian by reverse mode", jax.jacrev(lambda x: jnp.tanh(x @ WEIGHTS[0]) @ WEIGHTS[1][:, :8]),
            (ones(D),), 2 * D * H + 2 * 8 * 8 * H + 8 * 2 * D * H,
            formula="forward up to the last layer, whose value is not used; for 8 outputs both input gradients"),
    Program("transformer, scanned layers", _transformer(), (PARAMETERS, TOKENS), L * LAYER),
    Program("transformer, gradient", jax.grad(_transformer()), (PARAMETERS, TOKENS), 3 * L * LAYER,
            formula="backward is twice forward"),
    Program("transformer in bfloat16, gradient", jax.grad(_transformer()), LOW, 3 * L * LAYER),
    Program("transformer in mixed precision, gradient", jax.grad(_mixed_precision), (PARAMETERS, TOKENS),
            3 * L * LAYER),
    Program("transformer, all rematerialised", jax.grad(_transformer(remat=True)), (PARAMETERS, TOKENS),
            4 * L * LAYER - L * 2 * B2 * T * 4 * E * E, rematerialized_flops=L * (LAYER - 2 * B2 * T * 4 * E * E),
            formula="forward again in the backward pass, but for the last product, whose value is not used"),
    Program("transformer, products saved", jax.grad(_transformer(jax.checkpoint_policies.dots_saveable, remat=True)),
            (PARAMETERS, TOKENS), 3 * L * LAYER),
    Program("LSTM by scan", _lstm, (LSTM_PARAMETERS, SERIES), LSTM),
    Program("LSTM, gradient", jax.grad(_lstm), (LSTM_PARAMETERS, SERIES), 2 * LSTM + 20 * 2 * 8 * 32 * 128,
            formula="forward, both weight gradients, the state's gradient"),
    Program("CNN", _convolutional_network, (CNN_PARAMETERS, IMAGES), _FIRST + _SECOND + _LAST),
    Program("CNN, gradient", jax.grad(lambda p, x: -jnp.mean(_convolutional_network(p, x)[:, 3])),
            (CNN_PARAMETERS, IMAGES), 2 * _FIRST + 3 * (_SECOND + _LAST),
            formula="backward is twice forward, but for the first layer, whose input needs no gradient"),
    Program("mixture of experts with a ragged product", _ragged_layer, (ones(D, 4), ones(4, D, D), BATCH),
            2 * B * D * 4 + 4 * 2 * B * D * D,
            formula="XLA's CPU compiler masks the rows and runs all four experts on all of them"),
    Program("mixture of experts by dispatch", _switch_layer, (ones(D, 4), ones(4, D, D), BATCH), _SWITCH),
)  # fmt: skip
