"""The runner with a real program that needs no package but JAX: plain, observed and marked."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.observed.runs import run
from benchmarks.observed.truths import truth_of
from tests.programs.catalogue import SUITE, Program

SOURCE = f"""
import sys, time
sys.path.insert(0, {str(SUITE)!r})
import jax, jax.numpy as jnp
from truth import report, steps, watch

@watch
@jax.jit
def train_step(weights):
    return jnp.tanh(weights @ weights)

weights = jax.block_until_ready(train_step(jnp.eye(256) * 0.5))
began = time.perf_counter()
for _ in steps(range(250)):
    weights = train_step(weights).block_until_ready()
    time.sleep(0.01)
report("train_step", 250, time.perf_counter() - began, weights, matrix_flops=2.0 * 256**3)
"""


def test_a_program_is_judged_by_its_own_clock(tmp_path: Path) -> None:
    from tests.programs.__main__ import judge

    path = tmp_path / "training.py"
    path.write_text(SOURCE)
    plain, observed, marked = (run(path, how=how) for how in ("plain", "observed", "marked"))
    assert [one.status for one in (plain, observed, marked)] == [0, 0, 0], observed.stderr + marked.stderr
    assert not plain.documents
    row = judge(Program("training", "JAX"), plain, observed, marked)
    assert row.loop.verdict == "right", row
    # How near the rate is in so short a run depends on what else the machine does; that it is there does not.
    assert not row.rate.text.startswith("–"), row
    assert row.same.verdict == "right", row
    truth = truth_of(marked.stdout)
    assert truth is not None
    assert marked.last is not None
    assert abs(marked.last["loops"]["train"]["steps"] - truth["steps"]) <= 1


def test_a_program_that_dies_is_wrong_in_each_column(tmp_path: Path) -> None:
    from tests.programs.__main__ import judge

    path = tmp_path / "training.py"
    path.write_text("import jax\nraise SystemExit(3)\n")
    plain, observed = (run(path, how=how, python=sys.executable) for how in ("plain", "observed"))
    row = judge(Program("training", "JAX"), plain, observed, None)
    assert row.loop.text == "ended with status 3"
    assert row.same.verdict == "right"
