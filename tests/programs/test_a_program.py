"""The runner with a real program that needs no package but JAX: plain, observed and marked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.observed import run
from tests.programs.catalogue import SUITE

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


@pytest.mark.long
def test_a_program_is_judged_by_its_own_clock(tmp_path: Path) -> None:
    from tests.programs.__main__ import judge

    path = tmp_path / "training.py"
    path.write_text(SOURCE)
    # On a busy machine an agent that starts needs more than the default to the last snapshot of a job of seconds.
    patient = {"JAXOBS_SHUTDOWN_TIMEOUT": "20"}
    plain, observed, marked = (
        run(path, how=how, environment=patient) for how in ("plain", "observed", "marked")
    )
    assert [one.status for one in (plain, observed, marked)] == [0, 0, 0], observed.stderr + marked.stderr
    assert not plain.documents
    found = {figure.name: figure for figure in judge(plain, observed, marked)}
    assert found["loop"].verdict == "right", found
    # How near the rate is in so short a run depends on what else the machine does; that it is there does not.
    assert found["steps/s"].found is not None, found
    assert found["as without"].verdict == "right", found
    assert marked.last is not None
    assert abs(marked.last["loops"]["train"]["steps"] - marked.truth["steps"]) <= 1


def test_a_program_that_dies_is_wrong(tmp_path: Path) -> None:
    from tests.programs.__main__ import judge

    path = tmp_path / "training.py"
    path.write_text("import jax\nraise SystemExit(3)\n")
    plain, observed = (run(path, how=how, python=sys.executable) for how in ("plain", "observed"))
    found = judge(plain, observed, None)
    assert [(figure.found, figure.verdict) for figure in found] == [("status 3", "WRONG"), ("same", "right")]
