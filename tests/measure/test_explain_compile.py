"""`jaxobs.explain_compile()`: what a compile took and why, of programs that are slow to compile for a known reason."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxobs
from jaxobs.measure.compile_explained import KNOWN_ALREADY
from jaxobs.report.compile_explained import MOSTLY

ROOT = Path(__file__).parents[2]
ROWS = jax.ShapeDtypeStruct((4, 512), jnp.float32)
TABLE = np.random.default_rng(0).random((512, 1024), dtype=np.float32)
PARAMETERS = {"layers": [jnp.asarray(TABLE) + 1.0]}


def busy(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


@pytest.fixture
def _any_compile_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jaxobs.report.compile_explained.CACHED_FROM", 0.0)


@pytest.mark.usefixtures("_any_compile_is_long")
def test_an_unrolled_loop_is_named_and_a_scan_advised() -> None:
    def network(weights: jax.Array, x: jax.Array) -> jax.Array:
        for index in range(100):
            x = jnp.tanh(x @ weights[index])
        return x

    shapes = jax.ShapeDtypeStruct((100, 8, 8), jnp.float32), jax.ShapeDtypeStruct((2, 8), jnp.float32)
    found = jaxobs.explain_compile(network, *shapes)
    unrolled = found.contents.unrolled.value
    assert unrolled is not None
    assert (unrolled.times, unrolled.line) == (100, f"{__file__}:{network.__code__.co_firstlineno + 2}")
    assert "100 times, of test_explain_compile.py:" in str(found)
    assert "lax.scan" in next(found.advice())
    assert found.contents.instructions.value is not None
    assert found.contents.instructions.value >= 300
    assert found.module_bytes.value is not None


def test_python_in_the_trace_is_told_by_the_line_that_runs_it() -> None:
    def sleeps() -> None:
        time.sleep(0.3)

    def function(x: jax.Array) -> jax.Array:
        sleeps()
        busy(1.0)
        return x + 1

    found = jaxobs.explain_compile(function, ROWS)
    trace, lines = found.seconds["trace"].value, found.trace_lines.value
    assert trace is not None
    assert lines is not None
    assert trace >= 1.3
    assert sum(lines.values()) == pytest.approx(trace)
    named = [line.split()[-1].rpartition(".")[2] for line in lines]
    assert {"busy", "sleeps"} <= set(named)
    assert list(lines.values()) == sorted(lines.values(), reverse=True)
    is_most = trace > MOSTLY * sum(
        each.value or 0.0 for each in found.seconds.values()
    )  # beside a load it may not be
    assert any("tracing runs your Python" in piece for piece in found.advice()) == is_most
    assert "test_explain_compile.py" in str(found).splitlines()[1]


def test_a_trace_without_a_sample_has_no_lines_and_says_why() -> None:
    found = jaxobs.explain_compile(lambda x: x, jnp.float32(1))
    if found.trace_lines.value is None:  # on a busy machine it may take long
        assert "before a sample was taken" in str(found.trace_lines.reason)
    assert found.contents.unrolled.value is None
    assert "tracing by line" in str(found)


def test_equations_count_at_each_place_that_uses_them() -> None:
    @jax.jit
    def inner(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * jnp.cos(x)  # three

    def function(x: jax.Array) -> Any:
        for _ in range(40):
            x = inner(x)  # a call and its three
        return jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=5)[0]  # a scan and its one

    assert jaxobs.explain_compile(function, ROWS).equations == 40 * 4 + 2


@pytest.mark.usefixtures("_any_compile_is_long")
def test_captured_arrays_are_told_with_their_lines() -> None:
    folded = jnp.asarray(TABLE) * 2.0

    def function(x: jax.Array) -> jax.Array:
        y = (x @ TABLE) @ PARAMETERS["layers"][0].T
        return y * jnp.sum(folded * 3.0)

    first = function.__code__.co_firstlineno
    found = jaxobs.explain_compile(jax.jit(function), ROWS)
    constants = found.contents.constants  # the compiler has folded the last one
    assert [(each.dtype, each.shape, each.bytes) for each in constants] == [
        ("float32", (512, 1024), 2.0 * 2**20)
    ] * 3
    lines = [each.line for each in constants]
    assert sorted(lines) == [f"{__file__}:{first + at}" for at in (1, 1, 2)]
    assert re.search(
        r"6 MiB of a program that took .* to lower and compile: pass captured arrays", str(found)
    )
    assert "used at test_explain_compile.py:" in str(found)


class Model:
    def __init__(self) -> None:
        self.weights = jnp.asarray(TABLE)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.weights

    def method(self, x: jax.Array) -> jax.Array:
        return x @ self.weights


def test_arrays_that_no_variable_of_the_function_holds_are_told_too() -> None:
    model, array = Model(), jnp.asarray(TABLE)
    for function in (model, model.method, functools.partial(jnp.matmul, b=array), lambda x: model(x) + 1):
        (constant,) = jaxobs.explain_compile(function, ROWS).contents.constants
        assert constant.bytes == TABLE.nbytes
    assert f"{__file__}:" in jaxobs.explain_compile(model.method, ROWS).contents.constants[0].line
    assert jaxobs.explain_compile(model, ROWS).function == "Model"


def test_what_is_small_is_not_told() -> None:
    small = jnp.ones((100, 100)) * jnp.arange(100.0)
    found = jaxobs.explain_compile(lambda x: x @ small, jnp.ones((2, 100)))
    assert found.contents.constants == ()
    assert not any("as arguments" in piece for piece in found.advice())


def test_a_short_compile_is_given_no_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jaxobs.report.compile_explained.CACHED_FROM", 1e6)
    found = jaxobs.explain_compile(lambda x: x @ TABLE, ROWS)
    assert found.contents.constants
    assert list(found.advice()) == []


def test_it_runs_nothing_and_keeps_what_jit_was_told() -> None:
    ran = []

    @functools.partial(jax.jit, static_argnames="times")
    def function(x: jax.Array, *, times: int) -> jax.Array:
        jax.debug.callback(lambda: ran.append(times))
        return x * times

    found = jaxobs.explain_compile(function, ROWS, times=3)
    jax.effects_barrier()
    assert (ran, found.function) == ([], "function")


def test_what_jax_knew_already_has_no_seconds_and_says_so() -> None:
    function = jax.jit(lambda x: jnp.sin(x) + 1)
    x = jnp.ones((4, 4))
    first = jaxobs.explain_compile(function, x)
    again = jaxobs.explain_compile(function, x)
    for phase in ("trace", "lower", "backend"):
        assert first.seconds[phase].value is not None
        assert (again.seconds[phase].value, again.seconds[phase].reason) == (None, KNOWN_ALREADY)
    assert f"trace, lower, backend: {KNOWN_ALREADY}" in str(again)
    assert again.equations == first.equations
    assert again.persistent_cache.reason == KNOWN_ALREADY
    assert again.to_dict()["trace_lines"] is None


def test_a_plain_function_is_traced_each_time() -> None:
    traced = []

    def function(x: jax.Array) -> jax.Array:
        traced.append(x)
        return jnp.cos(x)

    for number in (1, 2):
        found = jaxobs.explain_compile(function, jnp.ones((4, 4)))
        assert found.seconds["backend"].value is not None
        assert len(traced) == number
    assert found.function == "function"


def test_it_is_plain_data_text_and_html() -> None:
    found = jaxobs.explain_compile(lambda x: x @ TABLE, ROWS)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["seconds"]["cache_write"] is None
    assert document["seconds"]["cache_write_reason"]
    assert document["contents"]["constants"][0]["shape"] == [512, 1024]
    assert document["advice"] == list(found.advice())
    assert found._repr_html_() == f"<pre>{str(found).replace('<lambda>', '&lt;lambda&gt;')}</pre>".replace(
        "'", "&#x27;"
    )


class CannotBeTraced:
    lower = None

    def __call__(self, x: int) -> int:
        return x


def test_what_cannot_be_compiled_is_refused() -> None:
    with pytest.raises(TypeError, match="takes a function first, not an object of type 'int'"):
        jaxobs.explain_compile(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="plain function or one of"):
        jaxobs.explain_compile(CannotBeTraced(), 3)


CACHED = """
import jax, jax.numpy as jnp, jaxobs
jax.config.update("jax_compilation_cache_dir", {folder!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

def kept(x):
    return x @ x

found = jaxobs.explain_compile(kept, jnp.ones((32, 32)))
has_read, advised = found.seconds["cache_read"].value is not None, "jax_compilation_cache_dir" in str(found)
print(found.persistent_cache.value, has_read, advised)
"""


def test_the_persistent_cache_is_a_miss_then_a_hit(tmp_path: Path) -> None:
    path = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", CACHED.format(folder=str(tmp_path))],
            env={**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        said.append(done.stdout.split())
    assert said == [["miss", "False", "False"], ["hit", "True", "False"]]


@pytest.mark.usefixtures("_any_compile_is_long")
def test_a_long_compile_without_the_cache_is_advised_one() -> None:
    found = jaxobs.explain_compile(lambda x: x * 2, jnp.ones(3))
    assert found.persistent_cache.value == "off"
    assert any("jax_compilation_cache_dir" in piece for piece in found.advice())
