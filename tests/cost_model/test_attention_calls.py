"""Fused attention of cuDNN and Transformer Engine: its products, its masks, and its lengths."""

import json

import pytest

from jaxobs.model.cost import inexact_for


def _attention(target, mask, *, results, operands="", extra="", **config):
    text = json.dumps(
        {
            "cudnn_fmha_backend_config": {
                "intermediate_tensor_shape": {"dimensions": ["2", "4", "128", "128"]},
                "mask_type": mask,
                **config,
            }
        }
    )
    return f"""ENTRY e {{
      q = bf16[2,128,4,64]{{3,2,1,0}} parameter(0)
      k = bf16[2,128,2,64]{{3,2,1,0}} parameter(1)
      v = bf16[2,128,2,32]{{3,2,1,0}} parameter(2)
      {operands}
      ROOT a = ({results}, u8[0]{{0}}) custom-call(q, k, v{extra}), custom_call_target="{target}",
        backend_config={text}
    }}"""


OUTPUT = "bf16[2,4,128,32]{3,1,2,0}"


PAIRS = {"NO_MASK": 128 * 128, "CAUSAL": 128 * 129 // 2}


@pytest.mark.parametrize("mask", ["NO_MASK", "CAUSAL"])
def test_fused_attention_forward(text_cost, mask):
    cost = text_cost(_attention("__cudnn$fmhaSoftmax", mask, results=OUTPUT)).cost
    met = 2 * 4 * PAIRS[mask]
    assert cost.matrix_flops_by_type == {"bfloat16": 2 * met * (64 + 32)}
    assert cost.transcendentals == met
    assert cost.rematerialized_flops == 0
    assert cost.exact


def test_fused_attention_backward_repeats_the_scores(text_cost):
    gradients = "bf16[2,4,128,64]{3,1,2,0}, bf16[2,2,128,64]{3,1,2,0}, bf16[2,2,128,32]{3,1,2,0}"
    text = _attention(
        "__cudnn$fmhaSoftmaxBackward",
        "CAUSAL",
        results=gradients,
        operands="s = f32[2,4,128]{2,1,0} parameter(3) g = bf16[2,128,4,32]{3,2,1,0} parameter(4)",
        extra=", s, g",
    )
    cost = text_cost(text).cost
    met = 2 * 4 * PAIRS["CAUSAL"]
    assert cost.rematerialized_flops == 2 * met * 64
    assert cost.matrix_flops - cost.rematerialized_flops == 2 * (2 * met * (64 + 32))


def test_a_sliding_window_admits_its_pairs_only(text_cost):
    text = _attention("__cudnn$fmhaSoftmax", "CAUSAL", results=OUTPUT, sliding_window_length=16)
    met = 2 * 4 * sum(min(query + 1, 16) for query in range(128))
    assert text_cost(text).cost.transcendentals == met


def test_attention_of_unknown_lengths_says_so_and_is_no_lower_bound(text_cost):
    cost = text_cost(_attention("__cudnn$fmhaSoftmax", "PADDING", results=OUTPUT)).cost
    assert not cost.exact
    assert "run time" in cost.inexact_reasons[0]
    assert str(cost).startswith("about ")
    assert inexact_for(cost.inexact_reasons).startswith("not exact: ")
    others = ("a loop", "a branch", "a sort", *cost.inexact_reasons)
    assert inexact_for(others) == "not exact: a loop; a branch; a sort"  # by what all of them say


def test_transformer_engine_attention(text_cost):
    attributes = (
        "{attn_heads = 4 : i64, input_batch = 2 : i64, kv_max_seqlen = 128 : i64, mask_type = 2 : i64, "
        "num_gqa_groups = 2 : i64, q_max_seqlen = 128 : i64, qk_head_dim = 64 : i64, v_head_dim = 32 : i64, "
        "scaling_factor = 1.250000e-01 : f64, is_training = true, window_size_left = -1 : i64}"
    )
    config = json.dumps({"custom_call_backend_config": {"attributes": attributes}})
    cost = text_cost(f"""ENTRY e {{
      q = bf16[2,128,4,64]{{3,2,1,0}} parameter(0)
      k = bf16[2,128,2,64]{{3,2,1,0}} parameter(1)
      v = bf16[2,128,2,32]{{3,2,1,0}} parameter(2)
      ROOT a = (bf16[2,128,4,32]{{3,2,1,0}}, f32[2,4,128,1]{{3,2,1,0}}, u32[2,4]{{1,0}}, u8[1024]{{0}})
        custom-call(q, k, v), custom_call_target="te_fused_attn_forward_ffi", api_version=API_VERSION_TYPED_FFI,
        backend_config={config}
    }}""").cost
    assert cost.matrix_flops_by_type == {"bfloat16": 2 * 2 * 4 * PAIRS["CAUSAL"] * (64 + 32)}
