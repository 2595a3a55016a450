"""`jaxobs memory SCRIPT:FUNCTION`: a script runs as far as the function, which is compiled and not run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os
import sys
from functools import partial

import jax
import jax.numpy as jnp

step = jax.jit(lambda x: x * 2)
def double(x): return x + x
twice = jax.jit(double)

class Model:
    @partial(jax.jit, static_argnums=0)
    def train_step(self, weights, batch):
        return jax.grad(lambda w: jnp.sort(batch @ w).sum())(weights)

def main():
    print("begins with", *sys.argv, __name__)
    twice(jnp.ones(3))
    weights = jax.jit(lambda: jnp.ones((64, 256)))()
    try:
        Model().train_step(weights, jnp.ones((512, 64)))
        print("has run")
    finally:
        print("cleans up")

if __name__ == "__main__":
    main()
    sys.exit(3)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "fails.py").write_text("import jax\n1 / 0\n")
    return tmp_path


def memory(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jaxobs", "memory", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("named", [("train.py:train_step",), ("-m", "train:train_step")])
def test_the_script_ends_where_the_function_is_compiled(folder: Path, named: tuple[str, ...]) -> None:
    ran = memory(folder, "--json", *named, "--batch", "512")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["function"] == "train_step"
    assert found["output_bytes"] == 64 * 256 * 4
    assert {row["bytes"] for row in found["buffers"] if row["kind"] == "argument"} == {
        64 * 256 * 4,
        512 * 64 * 4,
    }
    assert Path(found["buffers"][0]["source"]).name == "train.py:16"
    begins, cleans_up = ran.stderr.splitlines()
    assert begins.startswith("begins with ")
    assert begins.endswith("train.py --batch 512 __main__")
    assert cleans_up == "cleans up"


def test_as_text_it_is_what_jaxobs_memory_prints(folder: Path) -> None:
    ran = memory(folder, "train.py:train_step")
    assert ran.stdout.startswith("train_step holds ")
    assert "largest buffers at the peak" in ran.stdout
    assert "train.py:16 in" in ran.stdout


def test_a_function_is_known_by_the_name_of_the_jitted_one_too(folder: Path) -> None:
    assert "twice holds " in memory(folder, "train.py:twice").stdout
    assert "did not compile step; it compiled" in memory(folder, "train.py:step").stderr, (
        "which lambda it is nobody knows"
    )


def test_the_script_ends_where_another_thread_calls_the_function(folder: Path) -> None:
    (folder / "threads.py").write_text(
        "import queue, threading, jax, jax.numpy as jnp\n"
        "done = queue.Queue()\n"
        "@jax.jit\ndef step(x): return jnp.sort(x)\n"
        "def work(): done.put(step(jnp.ones(4096)))\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "done.get()\n"
    )
    ran = memory(folder, "threads.py:step")
    assert ran.stdout.startswith("step holds "), ran.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train.py:absent", "ended by sys.exit(3) and did not compile absent; it compiled"),
        ("fails.py:step", "by zero\njaxobs memory: fails.py failed and did not compile step; it compiled nothing"),
        ("none.py:step", "no such script: none.py"),
        ("train.py", "train.py: give a script and a function of it, such as train.py:train_step"),
        ("--bat train.py:f", "unrecognized arguments"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_said(folder: Path, words: str, said: str) -> None:
    ran = memory(folder, *words.split())
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr
