"""Fused attention: cuDNN's, as XLA and JAX call it, and TransformerEngine's.

Conventions. A query meets the keys that its mask admits: with a causal mask of T queries and keys the
T (T + 1)/2 pairs on and below the diagonal, with a sliding window those inside it. Padding masks and
packed sequences depend on lengths known only at run time: all pairs count, and the cost says so.

Forward, for each pair and query head: the score (2 d) and its part of the output (2 e), where d and e are
the head sizes of queries and values. Backward, as flash attention does it: the score again (2 d, counted as
rematerialised), and the gradients of values, weights (2 e each), queries and keys (2 d each). The softmax
adds 3 vector FLOPs and an exponential for each pair, and e for each query; its gradient 3 more, and 2 e.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from jaxobs.cost_model.custom_calls.protocol import CustomCall, Rule
from jaxobs.model.cost import AT_MOST, Cost


class Attention(NamedTuple):
    """The sizes and the mask on which the cost of a call depends."""

    heads: int
    """The number of query heads in all batch elements together."""
    queries: int
    keys: int
    head_size: int
    value_size: int
    causal: bool = False
    from_the_end: bool = False
    """Whether a causal mask or window lets the last query see the last key, not the first the first."""
    window: int = 0
    """The number of keys that a query sees backwards, its own position included; 0 for all."""
    padded: bool = False


def pairs(attention: Attention) -> int:
    """The number of pairs of query and key in one head that the mask admits."""
    queries, keys = attention.queries, attention.keys
    ahead = keys - queries if attention.from_the_end else 0
    seen = _staircase(queries, ahead, keys) if attention.causal else queries * keys
    missed = _staircase(queries, ahead - attention.window, keys) if attention.window > 0 else 0
    return max(0, seen - missed)


def _staircase(queries: int, ahead: int, keys: int) -> int:
    """The number of keys up to each query's position plus ``ahead``, summed over the queries."""

    def up_to(place: int) -> int:
        whole = min(max(place, 0), keys)
        return whole * (whole + 1) // 2 + max(0, place - keys) * keys

    return up_to(queries + ahead) - up_to(ahead)


def attention_cost(call: CustomCall, attention: Attention, *, backward: bool) -> Cost:
    """The cost of a call."""
    met = float(attention.heads * pairs(attention))
    size, value_size = attention.head_size, attention.value_size
    rows = float(attention.heads * attention.queries * value_size)
    score = 2 * met * size
    unknown = f"{call.target} has sequence lengths known only at run time; {AT_MOST}"
    return call.matrix(
        score + (4 * met * (size + value_size) if backward else 2 * met * value_size),
        of=call.operands[0],
        transcendentals=met,
        vector_flops_by_type={"float32": 6 * met + 2 * rows if backward else 3 * met + rows},
        rematerialized_flops_by_type={call.operands[0].type.name: score} if backward else {},
        exact=not attention.padded,
        inexact_reasons=(unknown,) if attention.padded else (),
    )


def cudnn(call: CustomCall) -> Cost | None:
    """The rule for cuDNN's calls. Operands: queries, keys, values; ``CudnnfMHABackendConfig`` has sizes and mask."""
    configuration = call.configuration.get("cudnn_fmha_backend_config", call.configuration)
    scores = configuration.get("intermediate_tensor_shape", {}).get("dimensions", ())
    if len(scores) != 4 or len(call.operands) < 3:
        return None
    batch, heads, queries, keys = (int(size) for size in scores)
    mask = str(configuration.get("mask_type", "NO_MASK"))
    attention = Attention(
        heads=batch * heads,
        queries=queries,
        keys=keys,
        head_size=call.operands[0].dimensions[-1],
        value_size=call.operands[2].dimensions[-1],
        causal=mask.endswith("CAUSAL") or configuration.get("is_causal_mask") is True,
        window=int(configuration.get("sliding_window_length", 0)),
        padded="PADDING" in mask,
    )
    return attention_cost(call, attention, backward="Backward" in call.target)


def transformer_engine(call: CustomCall) -> Cost | None:
    """The rule for TransformerEngine's calls, whose sizes and mask are attributes.

    NVIDIA/TransformerEngine, ``transformer_engine/jax/cpp_extensions/attention.py`` and ``fused_attn.h``:
    mask numbers are 0 for none, 1 padding, 2 causal, 3 both, 4 and 5 the last two aligned at the end.
    """
    given = call.attributes
    try:
        mask = int(given["mask_type"])
        head_size = given["qk_head_dim"] if "qk_head_dim" in given else given["head_dim"]
        left = int(given.get("window_size_left", -1))
        attention = Attention(
            heads=int(given["input_batch"] * given["attn_heads"]),
            queries=int(given["q_max_seqlen"]),
            keys=int(given["kv_max_seqlen"]),
            head_size=int(head_size),
            value_size=int(given.get("v_head_dim", head_size)),
            causal=mask >= 2,
            from_the_end=mask >= 4,
            window=left + 1 if left >= 0 else 0,
            padded=mask in (1, 3, 5),
        )
    except KeyError:
        return None
    return attention_cost(call, attention, backward="backward" in call.target)


RULES: Final[dict[str, Rule]] = {
    **{
        f"__cudnn$fmha{kind}{direction}{suffix}": cudnn
        for kind in ("Softmax", "ScaleBiasSoftmax", "SoftmaxDropout", "ScaleBiasSoftmaxDropout")
        for direction in ("", "Backward")
        for suffix in ("", "F8")
    },
    "te_fused_attn_forward_ffi": transformer_engine,
    "te_fused_attn_backward_ffi": transformer_engine,
}
