"""The command that compares JAX's own tests: differences on purpose are listed, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jax_own.compare import compare

TESTS = """
import os, sys
import jax

def test_alike(): assert jax.jit(lambda x: x + 1)(1) == 2
def test_fails_anyway(): assert False
def test_without_jaxobs(): assert "jaxobs" not in sys.modules, "it is here"
def test_type_of_a_jitted_function(): assert type(jax.jit(lambda x: x)).__name__ == "PjitFunction"
def test_decorator_with_options():
    if jax.__version_info__ < (0, 8):
        return  # there a function had to be given
    @jax.jit(static_argnums=0)
    def double(x): return 2 * x
    assert double(4) == 8
def test_flaky(tmp_path_factory):
    seen = os.path.join(os.path.dirname(__file__), "seen")
    first = not os.path.exists(seen)
    open(seen, "w").close()
    assert first
"""


@pytest.mark.long
def test_what_differs_is_listed_and_what_is_flaky_is_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_test.py").write_text(TESTS)
    assert compare(tmp_path, "own_test.py", 60.0) == 2
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "own_test.py: 5 passed, 1 failed"
    assert [line.partition(": ")[0] for line in lines[1:]] == [
        "  instrumented",
        "    own_test.py::test_without_jaxobs",
        "  attached",
        "    own_test.py::test_without_jaxobs",
    ]
    assert "passed → failed: AssertionError: it is here" in lines[2]
    assert "1 flaky" in lines[1]
