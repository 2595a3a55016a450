"""The hash that names an executable."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from jaxobs.cost_model import module_cost
from jaxobs.proto.messages import ModuleMessage

PROGRAM = """
import sys
import jax, jax.numpy as jnp
{padding}
def train_step(x, w):
    return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), c[0]), x, None, length=7)
lowered = jax.jit(train_step).lower(jnp.ones((8, 8)), jnp.ones((8, 8)))
module = lowered.compile().runtime_executable().hlo_modules()[0]
sys.stdout.buffer.write(module.as_serialized_hlo_module_proto())
"""


def _compiled_by_a_script(path, padding):
    path.parent.mkdir(exist_ok=True)
    path.write_text(PROGRAM.format(padding=padding))
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, path], env=environment, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return module_cost(done.stdout)


def test_it_is_the_same_in_another_process_from_another_path_and_line(tmp_path):
    here = _compiled_by_a_script(tmp_path / "one" / "train.py", "")
    there = _compiled_by_a_script(tmp_path / "two" / "elsewhere.py", "\n" * 50)
    assert here.fingerprint == there.fingerprint
    assert len(here.fingerprint) == 16
    assert here.operations != there.operations  # source lines differ


def _named(name, fn):
    fn.__name__ = name
    return fn


@pytest.mark.parametrize(
    "other",
    [
        _named("step", lambda x: x[0:4] * 2),
        _named("step", lambda x: x[4:8] * 3),
        _named("step", lambda x: x[4:8] + 2),
        _named("renamed", lambda x: x[4:8] * 2),
    ],
)
def test_it_differs_where_the_program_does(cost_of, other):
    original = _named("step", lambda x: x[4:8] * 2)
    assert cost_of(original, jnp.ones((16, 8))).fingerprint != cost_of(other, jnp.ones((16, 8))).fingerprint


def test_it_differs_with_shape_type_and_trip_count(cost_of):
    def scan(length):
        return _named("step", lambda x: jax.lax.scan(lambda c, _: (c * 2, None), x, None, length=length)[0])

    fingerprints = {
        cost_of(scan(5), jnp.ones(8)).fingerprint,
        cost_of(scan(6), jnp.ones(8)).fingerprint,
        cost_of(scan(5), jnp.ones(9)).fingerprint,
        cost_of(scan(5), jnp.ones(8, "int32")).fingerprint,
    }
    assert len(fingerprints) == 4


def test_names_metadata_and_identifiers_do_not_count(proto):
    serialized = proto(lambda x: jnp.sin(x) @ x, jnp.ones((8, 8)))
    message = ModuleMessage.FromString(serialized)
    for computation in message.computations:
        for instruction in computation.instructions:
            instruction.name = b"other." + instruction.name
            instruction.metadata = b""
            instruction.id += 1000
            for place, operand in enumerate(instruction.operand_ids):
                instruction.operand_ids[place] = operand + 1000
        computation.root_id += 1000
    assert module_cost(message.SerializeToString()).fingerprint == module_cost(serialized).fingerprint


def test_tuning_results_do_not_count(text_cost):
    text = """ENTRY e {
      a = bf16[4,8]{1,0} parameter(0)
      b = bf16[8,16]{1,0} parameter(1)
      ROOT c = (bf16[4,16]{1,0}, s8[64]{0}) custom-call(a, b), custom_call_target="__cublas$gemm",
        backend_config={"gemm_backend_config":{"selected_algorithm":"SELECTED","alpha_real":ALPHA}}
    }"""
    first = text_cost(text.replace("SELECTED", "7").replace("ALPHA", "1"))
    tuned = text_cost(text.replace("SELECTED", "12").replace("ALPHA", "1"))
    scaled = text_cost(text.replace("SELECTED", "7").replace("ALPHA", "2"))
    assert first.fingerprint == tuned.fingerprint
    assert first.fingerprint != scaled.fingerprint


def test_of_two_keys_called_algorithm_the_tuned_one_does_not_count_and_that_of_the_precision_does(text_cost):
    text = """ENTRY e {
      a = bf16[4,8]{1,0} parameter(0)
      b = bf16[8,16]{1,0} parameter(1)
      ROOT c = (bf16[4,16]{1,0}, s8[64]{0}) custom-call(a, b), custom_call_target="__cudnn$convForward",
        backend_config={"config":{"algorithm":TUNED,"precision_config":{"algorithm":"PRECISE"}}}
    }"""
    knobs = '{"algo_id":"28","tuning_knobs":{"2":"%d"},"is_cudnn_frontend":true}'
    first = text_cost(text.replace("TUNED", knobs % 1).replace("PRECISE", "ALG_UNSET"))
    tuned = text_cost(text.replace("TUNED", knobs % 3).replace("PRECISE", "ALG_UNSET"))
    other = text_cost(text.replace("TUNED", knobs % 1).replace("PRECISE", "ALG_DOT_BF16_BF16_F32_X3"))
    assert first.fingerprint == tuned.fingerprint
    assert first.fingerprint != other.fingerprint


def test_the_size_of_a_convolutions_scratch_which_its_tuned_algorithm_sets_does_not_count(text_cost):
    text = """ENTRY e {
      a = f32[1,8,8,4]{3,2,1,0} parameter(0)
      b = f32[3,3,4,16]{3,2,1,0} parameter(1)
      c = (f32[1,6,6,16]{3,2,1,0}, u8[SCRATCH]{0}) custom-call(a, b), custom_call_target="__cudnn$convForward",
        window={size=3x3}, dim_labels=b01f_01io->b01f
      ROOT r = f32[1,6,6,16]{3,2,1,0} get-tuple-element(c), index=0
    }"""
    first, tuned = (text_cost(text.replace("SCRATCH", size)) for size in ("1024", "262144"))
    other = text_cost(text.replace("SCRATCH", "1024").replace("f32[", "bf16["))
    assert first.fingerprint == tuned.fingerprint
    assert first.fingerprint != other.fingerprint
