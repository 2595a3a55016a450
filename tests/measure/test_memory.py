"""jaxobs.memory(): on programs that a hand can count, the largest buffers, their lines, the sums, and what is freed."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxobs
from jaxobs.model.peak_memory import PeakMemory
from tests.measure import memory_programs as programs
from tests.measure.memory_programs import LAYERS, SCORES, WIDTH, line_of

FLOAT = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
INT = partial(jax.ShapeDtypeStruct, dtype=jnp.int32)
WITHIN_CALLS = jax.__version_info__ < (0, 8)
"""Whether the CPU's compiler makes outputs within calls."""
STATE = {name: FLOAT((512, 512)) for name in ("momentum", "weights")}
LAYERED = ({"up": FLOAT((12, 64, 256)), "down": FLOAT((12, 256, 64))}, FLOAT((512, 64)))
RECURRENT = (dict.fromkeys(("gate", "new"), FLOAT((64, 64))), FLOAT((64, 16, 64)))

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "transformer": (programs.transformer_step, programs.transformer_arguments()),
    "transformer, rematerialised": (
        partial(programs.transformer_step, again=True),
        programs.transformer_arguments(),
    ),
    "transformer, unrolled": (
        partial(programs.transformer_step, scanned=False),
        programs.transformer_arguments(),
    ),
    "layers in a loop": (jax.grad(programs.layered_loss), LAYERED),
    "layers in a loop, rematerialised": (jax.grad(partial(programs.layered_loss, again=True)), LAYERED),
    "recurrent": (jax.grad(programs.recurrent_loss), RECURRENT),
    "recurrent, rematerialised": (jax.grad(partial(programs.recurrent_loss, again=True)), RECURRENT),
    "one-hot": (jax.grad(programs.one_hot_loss), (FLOAT((8192, 64)), INT((1024,)))),
    "scan that stacks": (programs.stacking, (FLOAT((256, 64)), FLOAT((64, 64)))),
    "not donated": (programs.update, (STATE, FLOAT((4,)))),
    "donated": (jax.jit(programs.update, donate_argnums=0), (STATE, FLOAT((4,)))),
    "constant": (lambda x: jnp.sort(x) @ jnp.arange(2.0**16).reshape(256, 256), (FLOAT((64, 256)),)),
    "branches": (
        lambda x: jax.lax.cond(x.sum() > 0, lambda y: jnp.sort(y @ y), lambda y: y + 1, x),
        (FLOAT((256, 256)),),
    ),
    "loop without a known end": (
        lambda x: jax.lax.while_loop(lambda y: y.sum() < 100, lambda y: jnp.sort(y) * 2, x),
        (FLOAT((256, 256)),),
    ),
    "plain attention": (jax.grad(programs.attention_without_flash), (FLOAT((4, 512, 32)),) * 3),
    "nothing": (lambda x: x, (FLOAT((4,)),)),
}


ALIGNMENT = 64 * 8
"""Bytes that scalars take for themselves: XLA's CPU backend aligns each buffer to 64."""


def saving(memory: jaxobs.Memory, change: str) -> Any:
    return next((each for each in memory.to_dict()["savings"] if each["change"] == change), None)


def largest(memory: jaxobs.Memory, kind: str = "temporary") -> Any:
    return next(each for each in memory.to_dict()["buffers"] if each["kind"] == kind)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_sums_are_xlas_own_and_what_lives_at_the_peak_fills_its_block(program: str) -> None:
    function, arguments = PROGRAMS[program]
    memory = jaxobs.memory(function, *arguments)
    jitted = function if hasattr(function, "lower") else jax.jit(function)
    told = jitted.lower(*arguments).compile().memory_analysis()
    assert memory.argument_bytes == told.argument_size_in_bytes
    assert memory.output_bytes == told.output_size_in_bytes
    assert memory.temporary_bytes == told.temp_size_in_bytes
    assert memory.alias_bytes == told.alias_size_in_bytes
    # XLA's block is as large as its fullest moment, but for what its packing wastes.
    assert memory.live_bytes is not None
    assert 0.9 * memory.temporary_bytes - ALIGNMENT <= memory.live_bytes <= memory.temporary_bytes
    shown = [each for each in memory.to_dict()["buffers"] if each["kind"] == "temporary"]
    assert sum(each["bytes"] for each in shown) <= memory.live_bytes


UP = LAYERS * WIDTH * 4 * WIDTH * 4
"""Bytes of one of the two widest weights of all layers."""


@pytest.mark.parametrize(
    ("program", "kind", "size", "what"),
    [
        (
            "transformer, rematerialised",
            "argument",
            UP,
            {"parameters['layers']['up']", "parameters['layers']['down']"},
        ),
        (
            "transformer, unrolled",
            "argument",
            UP,
            {"parameters['layers']['up']", "parameters['layers']['down']"},
        ),
        ("not donated", "argument", 512 * 512 * 4, {"state['momentum']", "state['weights']"}),
        ("not donated", "output", 512 * 512 * 4, {programs.update.__name__}),
        ("plain attention", "temporary", 4 * 512 * 512 * 4, {"attention_without_flash"}),
    ],
)
def test_the_largest_buffers_are_those_of_a_hand_count(
    program: str, kind: str, size: int, what: set[str]
) -> None:
    function, arguments = PROGRAMS[program]
    memory = jaxobs.memory(function, *arguments)
    found = [each for each in memory.to_dict()["buffers"] if each["kind"] == kind][:2]
    assert {each["bytes"] for each in found} == {size}
    named = {
        each["operation"] if kind == "argument" else each["function"].partition(".")[0] for each in found
    }
    assert named == what


def test_a_loop_over_layers_stacks_what_the_backward_pass_needs() -> None:
    memory = jaxobs.memory(*PROGRAMS["transformer"][:1], *PROGRAMS["transformer"][1])
    buffer = largest(memory)
    assert (buffer["bytes"], buffer["turns"], buffer["shape"][0]) == (LAYERS * SCORES, LAYERS, LAYERS)
    assert buffer["source"] == f"{programs.__file__}:{line_of('line of the softmax')}"
    assert (buffer["scope"], buffer["function"], buffer["autodiff"]) == ("attention", "attention", "forward")
    place = memory.to_dict()["places"][0]
    assert (place["source"], place["scope"]) == (buffer["source"], "attention")
    assert place["bytes"] >= 2 * LAYERS * SCORES  # exponentials and weights


@pytest.mark.parametrize("program", ["transformer", "layers in a loop", "recurrent"])
def test_checkpointing_the_body_of_the_loop_frees_what_was_said(program: str) -> None:
    before, after = (
        jaxobs.memory(function, *arguments)
        for function, arguments in (PROGRAMS[program], PROGRAMS[f"{program}, rematerialised"])
    )
    freed, said = before.needed_bytes - after.needed_bytes, saving(before, "rematerialisation")
    assert freed == pytest.approx(said["bytes"], rel=0.1)
    assert freed >= said["least"]
    again = saving(after, "rematerialisation")
    assert again is None or again["least"] is None, "nothing more is promised"


def test_without_a_loop_over_layers_only_the_most_is_known() -> None:
    before = jaxobs.memory(PROGRAMS["transformer, unrolled"][0], *programs.transformer_arguments())
    after = jaxobs.memory(
        partial(programs.transformer_step, again=True, scanned=False), *programs.transformer_arguments()
    )
    said = saving(before, "rematerialisation")
    assert said["least"] is None
    assert before.needed_bytes - after.needed_bytes <= said["bytes"]
    assert "at most" in said["sentence"]


def test_a_large_one_hot_is_named_with_its_line_and_would_only_be_made_again() -> None:
    function, arguments = PROGRAMS["one-hot"]
    memory = jaxobs.memory(function, *arguments)
    buffer = largest(memory)
    assert buffer["bytes"] == 1024 * 8192 * 4
    assert buffer["source"].endswith(f":{line_of('line of the one-hot')}")
    assert saving(memory, "rematerialisation") is None


def test_what_a_scan_stacks_is_named_by_the_line_that_makes_it() -> None:
    function, arguments = PROGRAMS["scan that stacks"]
    memory = jaxobs.memory(function, *arguments)
    stacked = [each for each in memory.to_dict()["buffers"] if each["turns"] == 40]
    assert [each["bytes"] for each in stacked] == [40 * 256 * 64 * 4]
    assert stacked[0]["source"].endswith(f":{line_of('line of what is stacked')}")
    assert memory.live_bytes is not None
    assert memory.live_bytes >= 2 * 40 * 256 * 64 * 4  # the sorted copy beside it


def test_of_a_plain_function_no_line_is_ours() -> None:
    table = np.ones((512, 512), np.float32)
    memory = jaxobs.memory(lambda x: x @ table, FLOAT((4, 512)))
    lines = {each["source"] for each in memory.to_dict()["buffers"]}
    assert not any("on_demand" in str(line) for line in lines)
    assert any("test_memory.py" in str(line) for line in lines)


def test_donation_frees_what_was_said() -> None:
    before, after = (
        jaxobs.memory(PROGRAMS[name][0], *PROGRAMS[name][1]) for name in ("not donated", "donated")
    )
    assert (
        before.needed_bytes - after.needed_bytes == saving(before, "donation")["bytes"] == 2 * 512 * 512 * 4
    )
    assert saving(after, "donation") is None
    assert "2 MiB of them donated arguments" in " ".join(str(after).split())
    assert largest(after, "argument")["operation"] in {"state['momentum']", "state['weights']"}


@pytest.mark.long
@pytest.mark.skipif(WITHIN_CALLS, reason="where an output is made is not known: only the most is told")
def test_where_temporaries_use_the_outputs_places_donation_frees_at_most_what_was_said() -> None:
    parameters, tokens = programs.transformer_arguments()
    arguments = ((parameters,) * 3, tokens)
    before, after = (
        jaxobs.memory(jax.jit(programs.adam_step, donate_argnums=donated), *arguments) for donated in ((), 0)
    )
    said = saving(before, "donation")
    assert 0 <= before.needed_bytes - after.needed_bytes <= said["bytes"] < 0.9 * before.output_bytes
    assert (said["least"], "temporaries use the outputs' places" in said["sentence"]) == (None, True)
    assert after.live_bytes is not None
    assert before.live_bytes is not None
    moved = after.live_bytes - before.live_bytes
    assert before.output_bytes - moved == pytest.approx(said["bytes"], rel=0.1), "but for what packing wastes"


def test_temporaries_after_the_arguments_last_use_may_have_its_place() -> None:
    def step(x: jax.Array, w: jax.Array) -> jax.Array:
        early = x.sum(0)
        late = jnp.sin(jnp.outer(early, early)) @ w
        return jnp.sort(late, axis=1) @ late @ w

    arguments = FLOAT((256, 256)), FLOAT((256, 256))
    before, after = (jaxobs.memory(jax.jit(step, donate_argnums=donated), *arguments) for donated in ((), 0))
    assert before.needed_bytes - after.needed_bytes == saving(before, "donation")["bytes"] == 256 * 256 * 4


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("used_again", [
    lambda x: (jnp.tanh(x), x @ x), lambda x: x @ x, lambda x: jnp.roll(x, 1, 0) + 1, lambda x: x[0] + x, jnp.sort,
    lambda x: jnp.pad(x[1:], ((0, 1), (0, 0))) + x, lambda x: jnp.concatenate([x[1:], x[:1]]),
])  # fmt: skip
def test_an_argument_that_is_used_after_an_output_is_begun_frees_nothing(used_again: Any) -> None:
    before, after = (
        jaxobs.memory(jax.jit(used_again, donate_argnums=donated), FLOAT((256, 256))) for donated in ((), 0)
    )
    assert before.needed_bytes == after.needed_bytes
    said = saving(before, "donation")
    assert said is None or (WITHIN_CALLS and said["least"] is None)


@pytest.mark.parametrize("step", [
    lambda x, _: (jnp.tanh(x), jnp.cumsum(x, 0)), lambda x, y: (x @ x, jnp.sort(y).sum()),
    lambda x, y: jnp.tanh(jnp.outer(x.sum(0), y[0])) + x,
])  # fmt: skip
def test_where_the_compiler_copies_what_is_donated_no_exact_saving_is_told(step: Any) -> None:
    """An output that does not follow from all uses of its argument, or cannot be written over it."""
    arguments = FLOAT((128, 128)), FLOAT((128, 128))
    before, after = (jaxobs.memory(jax.jit(step, donate_argnums=donated), *arguments) for donated in ((), 0))
    said = saving(before, "donation")
    assert said is None or said["least"] in (None, before.needed_bytes - after.needed_bytes)


def test_what_is_read_again_of_another_array_leaves_the_donation_as_it_is() -> None:
    def step(weights: dict[str, jax.Array], flat: jax.Array) -> dict[str, jax.Array]:
        return {
            name: each - flat[at * 65_536 :][:65_536].reshape(256, 256)
            for at, (name, each) in enumerate(weights.items())
        }

    arguments = dict.fromkeys("abcd", FLOAT((256, 256))), FLOAT((4 * 65_536,))
    before, after = (jaxobs.memory(jax.jit(step, donate_argnums=donated), *arguments) for donated in ((), 0))
    said = saving(before, "donation")
    assert before.needed_bytes - after.needed_bytes == said["bytes"] == 4 * 65_536 * 4
    assert said["least"] == (None if WITHIN_CALLS else said["bytes"])


def test_a_float64_by_accident_is_named_and_the_narrower_type_frees_what_was_said() -> None:
    home: Any = (
        jax if callable(getattr(jax, "enable_x64", None)) else importlib.import_module("jax.experimental")
    )
    with home.enable_x64(True):
        wide, narrow = (
            jaxobs.memory(
                programs.with_float64, FLOAT((512, 512)), jax.ShapeDtypeStruct((), getattr(jnp, dtype))
            )
            for dtype in ("float64", "float32")
        )
    said = saving(wide, "smaller type")
    assert wide.needed_bytes - narrow.needed_bytes == pytest.approx(said["bytes"], rel=0.1)
    assert said["bytes"] == pytest.approx(2 * 512 * 512 * 4, rel=0.01)
    assert {each["dtype"] for each in wide.to_dict()["buffers"][:2]} == {"float64"}
    assert line_of("line that makes it wide") in [
        int(place["source"].rpartition(":")[2]) for place in wide.to_dict()["places"]
    ]
    assert saving(narrow, "smaller type") is None


SHARDED = """
import json
import jax, jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import jaxobs

mesh = Mesh(np.array(jax.devices()), ("devices",))
whole, split = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), ("devices",)))

def update(state, batch):
    return state * 0.9 + batch.sum()

def memory(sharding):
    state = jax.ShapeDtypeStruct((1024, 512), jnp.float32, sharding=sharding)
    batch = jax.ShapeDtypeStruct((64, 8), jnp.float32, sharding=split)
    found = jaxobs.memory(jax.jit(update, donate_argnums=0, out_shardings=sharding), state, batch)
    return found.to_dict()

print(json.dumps([memory(whole), memory(split)]))
"""


def test_sharding_what_every_device_holds_whole_frees_what_was_said() -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], env=os.environ | flags, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    before, after = json.loads(done.stdout)
    (said,) = [each for each in before["savings"] if each["change"] == "sharding"]
    assert said["bytes"] == 1024 * 512 * 4 * 7 // 8
    assert before["needed_bytes"] - after["needed_bytes"] == pytest.approx(said["bytes"], rel=0.1)
    assert [each for each in after["savings"] if each["change"] == "sharding"] == []


def test_it_is_shown_in_a_notebook() -> None:
    html = jaxobs.memory(programs.stacking, FLOAT((256, 64)), FLOAT((64, 64)))._repr_html_()
    assert "<table" in html
    assert "memory_programs.py" in html


def test_where_the_backend_gives_no_assignment_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jaxobs.measure.on_demand.memory_of", lambda executable: ((), b""))
    with pytest.raises(ValueError, match="gave no buffer assignment"):
        jaxobs.memory(jnp.sin, FLOAT((4,)))


def test_sums_that_differ_from_xlas_are_withheld_with_the_reason() -> None:
    sums = {"argument": 8, "output": 8, "temporary": 4, "alias": 0}
    memory = PeakMemory(sums, 4)
    assert memory.differs(sums) == ""
    assert "temporary 4 for 5 bytes" in memory.differs(sums | {"temporary": 5})


def test_an_assignment_of_random_bytes_leaves_the_cost_as_it_is() -> None:
    from jaxobs.cost_model import module_cost

    executable = jax.jit(programs.update).lower(STATE, FLOAT((4,))).compile().runtime_executable()
    module = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    plain = module_cost(module)
    for wrong in (b"\xff", b"\x0a\x02\x08\x01\x1a\x04\x4a\x02\x08\x07", os.urandom(64)):
        found = module_cost(module, buffers=wrong)
        assert found.cost == plain.cost
        assert found.memory is None or found.memory.differs({"argument": 2 * 2**20}), found.memory
