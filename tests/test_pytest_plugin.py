"""The pytest plugin in runs of pytest of their own: what a test that compiles again is told, and what others pay."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import jaxobs.pytest_plugin
from tests.jobs import environment

SUITE = """
import sys
import pytest

made = []

def step(size):
    import jax, jax.numpy as jnp
    if not made:
        @jax.jit
        def double(x):
            return x * 2
        made.append(double)
    return made[0](jnp.ones(size))

def test_plain():
    assert "jax" not in sys.modules
    ours = {name for name in sys.modules if name.partition(".")[0] in ("jaxobs", "jaxobs_plugins")}
    assert ours <= {"jaxobs", "jaxobs.instrument", "jaxobs.model", "jaxobs.model.clock", "jaxobs.pytest_plugin"}

def test_another_shape():
    step(7)

@pytest.mark.jaxobs(recompilations=0)
def test_compiles_once():
    step(3), step(3)

@pytest.mark.jaxobs(recompilations=0)
def test_compiles_again():
    for size in (3, 7):
        step(size)  # the line

@pytest.mark.jaxobs(recompilations="<=1")
def test_may_compile_again_once():
    step(3), step(4)

@pytest.mark.jaxobs(recompilations=0)
def test_fails_by_itself():
    step(3), step(4)
    raise RuntimeError("its own")

@pytest.mark.jaxobs(recompilation=0)
def test_misspells():
    pass

@pytest.mark.jaxobs(mfu=">=0.3")
def test_asks_for_what_needs_an_agent():
    pass

@pytest.mark.jaxobs(0)
def test_writes_no_name():
    pass
"""
BLOCKS = """
def test_warms_up_before_the_block(jaxobs_expect):
    step(2)
    with jaxobs_expect(recompilations=0):
        step(2)

def test_compiles_again_in_the_block(jaxobs_expect):
    step(2)
    with jaxobs_expect(recompilations=0):
        step(5)

def test_compiles_again_in_a_later_block(jaxobs_expect):
    step(2)
    expected = jaxobs_expect(recompilations=0)
    for size in (2, 6):
        with expected:
            step(size)

def test_clears_the_listeners(jaxobs_expect):
    step(2)
    with jaxobs_expect(recompilations=0):
        import jax
        jax.monitoring.clear_event_listeners()
        step(4)
"""
WITHOUT_BLOCK = """
def test_compiles_again_without_a_block(jaxobs_expect):
    step(2)
    jaxobs_expect(recompilations=0)
    step(8)
"""
RED = {
    "test_compiles_again", "test_fails_by_itself", "test_misspells", "test_asks_for_what_needs_an_agent",
    "test_compiles_again_in_the_block", "test_compiles_again_in_a_later_block", "test_clears_the_listeners",
    "test_writes_no_name",
}  # fmt: skip


def pytest_says(tmp_path: Path, suite: str, *options: str, **settings: str) -> str:
    (tmp_path / "test_step.py").write_text(suite)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        *options,
        "test_step.py",
    ]
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert ran.returncode in {0, 1}, ran.stdout + ran.stderr
    return ran.stdout


def failed(said: str) -> set[str]:
    return set(re.findall(r"^FAILED test_step.py::(\w+)", said, re.MULTILINE))


def test_a_test_that_compiles_again_fails_with_cause_and_line(tmp_path: Path) -> None:
    said = pytest_says(tmp_path, SUITE + BLOCKS)
    assert failed(said) == RED
    line = SUITE[: SUITE.index("made[0](")].count("\n") + 1
    again = f"`double` was compiled again at {tmp_path}/test_step.py:{line}: shape, x: float32["
    assert f"expected recompilations == 0, and there were 1\n  {again}3] → float32[7]" in said
    assert f"{again}2] → float32[5]" in said
    assert f"{again}2] → float32[6]" in said
    assert "it is not known: `jax.monitoring.clear_event_listeners()` was called" in said
    assert "RuntimeError: its own" in said
    assert f"{again}3] → float32[4]" not in said  # the test's own error says more
    assert "no such figure (did you mean 'recompilations'?)" in said
    assert "obs.expect(mfu=…, on_failure='error')" in said
    assert "marker jaxobs: 0 has no name: write what is expected, as recompilations=0" in said
    assert "jaxobs/testing" not in said, "tracebacks show the suite's own lines"
    assert "jaxobs: switched off" not in said


@pytest.mark.parametrize("alone", ["test_compiles_again_in_the_block", "test_compiles_once"])
def test_a_marked_test_ends_alone_as_after_others(alone: str, tmp_path: Path) -> None:
    assert failed(pytest_says(tmp_path, SUITE + BLOCKS, "-k", alone)) == RED & {alone}


def test_what_is_expected_without_a_block_is_judged_as_the_test_ends(tmp_path: Path) -> None:
    said = pytest_says(tmp_path, SUITE + WITHOUT_BLOCK, "-k", "without_a_block")
    assert "ERROR test_step.py::test_compiles_again_without_a_block" in said
    assert "shape, x: float32[2] → float32[8]" in said
    assert "jaxobs/testing" not in said


@pytest.mark.long
def test_workers_of_xdist_tell_the_same(tmp_path: Path) -> None:
    said = pytest_says(tmp_path, SUITE + BLOCKS, "-k", "not plain", "-n", "2")
    assert failed(said) == RED
    assert "float32[3] → float32[7]" in said


def test_where_jaxobs_is_switched_off_tests_run_unchecked_and_it_is_said(tmp_path: Path) -> None:
    said = pytest_says(tmp_path, SUITE + BLOCKS, "-k", "not plain", Jaxobs_enabled="0")
    assert failed(said) == {
        name for name in RED if not name.startswith(("test_compiles_again", "test_clears"))
    }
    assert "jaxobs: switched off, so tests marked `jaxobs` are not checked" in said


def test_a_suite_without_the_plugin_runs(tmp_path: Path) -> None:
    said = pytest_says(tmp_path, SUITE, "-p", "no:jaxobs", "-W", "ignore::pytest.PytestUnknownMarkWarning")
    assert failed(said) == {"test_fails_by_itself"}


def test_a_wrong_setting_of_jaxobs_breaks_marked_tests_alone(tmp_path: Path) -> None:
    suite = SUITE.partition("@pytest.mark.jaxobs(recompilations=0)\ndef test_compiles_again")[0]
    said = pytest_says(tmp_path, suite, "-k", "not plain", JAXOBS_ENABLED="perhaps")
    assert failed(said) == {"test_compiles_once"}
    assert "JAXOBS_ENABLED" in said


def test_pytest_starts_with_a_pluggy_that_knows_no_new_wrappers() -> None:
    """Before 1.2, which pytest 7 allows, the option is a TypeError as the plugin is loaded, and no test runs."""
    given = [getattr(hook, "pytest_impl", {}) for hook in vars(jaxobs.pytest_plugin).values()]
    assert any(given)
    assert not any(options.get("wrapper") for options in given)
