"""Why a function was compiled again: forty ways to cause it, from JAX's documentation and issues, each in real JAX."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jaxobs.model import events

CURRENT = tuple(int(part) for part in jax.__version__.split(".")[:2]) >= (0, 10)


MERGED = hasattr(jax, "smap")  # since 0.8 pmap is made of jit

PMAPPED = "flat_args[0]" if CURRENT else "args[0]"
"""JAX's own name for the first array of a pmapped function."""

HERE = Path(__file__).parent


X = "float32[8,16]"


LONGER = "float32[9,16]"


ROW = "float32[16]"


# Case: cause, argument, from what, to what (None where it is a place in the file).
EXPECTED: dict[str, tuple[str, str | None, str | None, str | None]] = {
    "shape": ("shape", "x", X, LONGER),
    "last_partial_batch": ("shape", "batch['image']", X, "float32[5,16]"),
    "dtype": ("dtype", "x", X, "bfloat16[8,16]"),
    "weak_type_of_a_python_scalar": ("weak_type", "scale", "float32[] (weak type)", "float32[]"),
    "python_int_and_float": ("dtype", "scale", "int32[] (weak type)", "float32[] (weak type)"),
    "numpy_scalar_and_python_scalar": ("weak_type", "scale", "float32[]", "float32[] (weak type)"),
    "key_added_to_a_dictionary": ("pytree", "params['dense']", "dict('w')", "dict('b', 'w')"),
    "longer_list": ("pytree", "params", "list of 2", "list of 3"),
    "none_or_an_array": ("pytree", "mask", "None", ROW),
    "tuple_or_named_tuple": ("pytree", "params", "tuple of 2", "Pair"),
    "dictionary_or_ordered_dictionary": ("pytree", "params", "dict('w')", "OrderedDict of 1 with ('w',)"),
    "auxiliary_data_of_a_users_node": (
        "pytree", "params['layer']", "Layer of 1 with 'relu'", "Layer of 1 with 'tanh'",
    ),
    "static_argument_by_number": ("static_argument", "times", "2", "3"),
    "static_argument_by_name": ("static_argument", "mode", "'train'", "'eval'"),
    "static_argument_that_is_not_a_number": (
        "static_argument", "scale", "nan", "nan",
    ),
    "shape_of_a_pmapped_function": ("shape", PMAPPED, X, "float32[8,17]"),
    "static_argument_of_a_pmapped_function": ("other", None, None, None),
    "axes_of_pmap": ("other", None, None, None),
    "static_argument_of_a_users_type": ("static_argument", "config", "Hostile", "Hostile"),
    "equal_static_argument_of_a_users_type_and_another_shape": ("shape", "x", X, LONGER),
    "static_text_of_a_users_type": ("static_argument", "mode", "Text", "Text"),
    "static_self_of_a_method": ("static_argument", "self", "Model", "Model"),
    "new_lambda_each_time": ("redefined", None, None, None),
    "new_lambda_with_another_array_and_shape": ("redefined", None, None, None),
    "new_partial_each_time": ("static_argument", "by", "2.0", "3.0"),
    "positional_argument_of_a_partial": ("static_argument", "by", "2.0", "3.0"),
    "new_partial_with_what_it_bound_before": ("redefined", None, None, None),
    "another_shape_for_one_of_two_closures": ("shape", "x", X, LONGER),
    "another_closure_of_one_factory": ("redefined", None, None, None),
    "the_method_of_another_object": ("redefined", None, None, None),
    "gradients_of_two_closures_outside_jit": ("other", None, None, None),
    "jit_in_a_loop": ("redefined", None, None, None),
    "function_defined_anew": ("redefined", None, "cell at <cell x + 1>:1", "cell at <cell x + 2>:1"),
    "options_of_jit": ("redefined", "donate_argnums", "()", "(0,)"),
    "enable_x64_context": ("context", "jax_enable_x64", "False", "True"),
    "enable_x64_with_python_scalars": ("context", "jax_enable_x64", "False", "True"),
    "default_matmul_precision": ("context", "jax_default_matmul_precision", "None", "'highest'"),
    "numpy_dtype_promotion": (
        "context", "jax_numpy_dtype_promotion", "NumpyDtypePromotion.STANDARD", "NumpyDtypePromotion.STRICT",
    ),
    "default_device": ("context", "jax_default_device", "None", "cpu:1"),
    "mesh_context": ("context", "mesh", "none", "(data=8) on cpu:0 to 7"),
    "mesh_set_for_a_thread": ("context", "mesh", "none", "(data=8)"),
    "sharding_over_devices": ("sharding", "x", "uncommitted", "P('data') over (data=8) on cpu:0 to 7"),
    "another_partition": (
        "sharding", "x", "P('data', None) over (data=8) on cpu:0 to 7", "P(None, 'data') over (data=8) on cpu:0 to 7",
    ),
    "another_partition_of_an_explicit_mesh": (
        "sharding", "x", "P('data', None) over (data=8 explicit) on cpu:0 to 7",
        "P(None, 'data') over (data=8 explicit) on cpu:0 to 7",
    ),
    "another_device": ("sharding", "x", "cpu:0", "cpu:1"),
    "committed_or_not": ("sharding", "x", "uncommitted", "cpu:0"),
    "by_keyword_or_by_position": ("pytree", "scale", "positional", "keyword"),
    "optional_argument_given": ("pytree", "bias", "absent", "positional"),
    "typed_and_raw_random_keys": ("dtype", "key", "uint32[2]", "key<fry>[]"),
    "one_of_many_positional_arguments": ("shape", "args[1]", ROW, "float32[17]"),
    "one_of_any_keyword_arguments": ("shape", "batch['label']", ROW, "float32[17]"),
    "nearest_of_several": ("shape", "x", X, LONGER),
    "gradient_outside_jit": ("shape", "args[0]", X, LONGER),
    "gradient_of_each_example_outside_jit": ("shape", "args[0]", "float32[8,16]", LONGER),
    "ahead_of_time": ("shape", "x", X, LONGER),
    "caches_cleared": ("other", None, None, None),
}  # fmt: skip


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What the probe said of every case: (function, cause, attributes) of each compile."""
    path = os.pathsep.join([str(HERE.parents[1]), str(HERE.parents[1] / "plugins")])
    done = subprocess.run(
        [sys.executable, str(HERE / "recompile_cases.py")],
        env=os.environ
        | {
            "PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        },
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (answer["failures"], answer["log"]) == (0, [])
    return dict(answer["told"])


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recompile_has_its_cause_and_its_argument(name: str, told: dict[str, Any]) -> None:
    cause, argument, old, new = EXPECTED[name]
    compiles = told[name]
    (_, found, attributes) = compiles[-1]
    if found == "other" and not CURRENT:
        return  # what an older JAX does not show is not guessed
    assert len(compiles) > 1
    assert (found, attributes.get(events.MISS_ARGUMENT)) == (cause, argument)
    if cause == "other":
        assert "nothing that is compared differs" in attributes[events.MISS_REASON]
        return
    assert events.MISS_REASON not in attributes
    if CURRENT and old is not None:
        assert (attributes[events.MISS_OLD], attributes[events.MISS_NEW]) == (old, new)
    assert attributes[events.MISS_DIFFERENCES] >= 1
    file = Path(attributes[events.CALL_FILE]).name
    assert file in ("recompile_cases.py", "recompiled_arguments.py", "recompiled_functions.py")
    line = (HERE / file).read_text().splitlines()[attributes[events.CALL_LINE] - 1]
    assert "(" in line
    assert attributes[events.CALL_FUNCTION] == name


def test_a_pmapped_function_compiles_again_for_its_own_output(told: dict[str, Any]) -> None:
    """Up to JAX 0.7 it does not."""
    causes = [
        (cause, found.get(events.MISS_ARGUMENT))
        for _, cause, found in told["pmapped_arrays_that_lie_on_the_devices_by_then"]
    ]
    assert causes[1:] == ([("sharding", PMAPPED)] if MERGED else [])


@pytest.mark.parametrize("name", ["not_again_by_the_order_of_keys", "not_again_by_two_functions_of_one_name"])
def test_what_jax_does_not_compile_again_is_no_recompile(name: str, told: dict[str, Any]) -> None:
    assert all(cause in (None, "redefined") for _, cause, _ in told[name][:1])
    assert [cause for _, cause, _ in told[name][1:]] == ([None] if "two_functions" in name else [])


@pytest.mark.parametrize(
    "name",
    [
        "not_again_by_passes_of_a_gradient",
        "not_again_by_a_gradient_of_a_gradient",
        "not_again_by_transformations_of_transformations",
    ],
)
def test_what_transformations_make_are_no_recompiles(name: str, told: dict[str, Any]) -> None:
    assert len(told[name]) > 1
    assert {cause for _, cause, _ in told[name][1:]} == {None}


@pytest.mark.parametrize("name", ["another_closure_of_one_factory", "the_method_of_another_object"])
def test_each_object_of_a_function_compiles_once(name: str, told: dict[str, Any]) -> None:
    assert [cause for _, cause, _ in told[name]] == [None, "redefined"]


def test_functions_of_one_source_and_other_names_are_functions_of_their_own(told: dict[str, Any]) -> None:
    compiles = told["not_again_by_a_library_that_names_its_closures"]
    assert [(name, cause) for name, cause, _ in compiles] == [("train", None), ("evaluate", None)]


def test_the_number_of_differences_tells_whether_the_named_argument_is_the_only_one(
    told: dict[str, Any],
) -> None:
    assert told["shape"][-1][2][events.MISS_DIFFERENCES] == 1
    assert told["last_partial_batch"][-1][2][events.MISS_DIFFERENCES] == 2  # the labels as well


def test_the_line_is_that_of_the_call_which_compiled_and_not_of_one_that_only_traced(observed: Any) -> None:
    step = jax.jit(lambda x: x + 1)
    step(np.ones(3, np.float32))
    jax.eval_shape(step, np.ones(4, np.float32))
    step(np.ones(4, np.float32))
    lines = [dict(event.attributes)[events.CALL_LINE] for event in observed.of(events.Compilation)]
    assert lines[-1] - lines[0] == 2


TRAINER = (
    "def fit(step, x):\n    return step(x)\n\ndef train(jit):\n    step = jit(lambda x: x * 3)\n    {call}\n"
)


def installed(folder: Path, name: str, call: str = "") -> Any:
    """A module of a package that pip has put where packages are."""
    packages = folder / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / f"{name}.py").write_text(TRAINER.replace("{call}", call or "pass"))
    spec = importlib.util.spec_from_file_location(name, packages / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_line_is_the_users_and_not_that_of_a_trainer_in_an_installed_package(
    observed: Any, tmp_path: Path
) -> None:
    trainer = installed(tmp_path, "trainer_of_a_library")
    trainer.fit(jax.jit(lambda x: x * 2), np.ones(3, np.float32))
    (compiled,) = [dict(event.attributes) for event in observed.of(events.Compilation)]
    assert compiled[events.CALL_FILE] == __file__
    assert "trainer.fit(" in Path(__file__).read_text().splitlines()[compiled[events.CALL_LINE] - 1]


def test_a_program_that_is_itself_installed_has_lines_of_its_own(observed: Any, tmp_path: Path) -> None:
    program = installed(tmp_path, "program_that_is_installed", "fit(step, 2.0)")
    thread = threading.Thread(
        target=program.train, args=(jax.jit,)
    )  # so that no line of this file is on its stack
    thread.start()
    thread.join()
    (compiled,) = [dict(event.attributes) for event in observed.of(events.Compilation)]
    assert (Path(compiled[events.CALL_FILE]).name, compiled[events.CALL_LINE]) == (
        "program_that_is_installed.py",
        2,
    )
