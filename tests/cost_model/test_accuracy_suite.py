"""The accuracy suite as a user runs it: `python -m benchmarks.accuracy`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FROM_REAL_USE = [
    "MLP",
    "CNN, gradient",
    "residual block, forward and backward",
    "transformer, scanned layers",
    "transformer, all rematerialised",
    "transformer, products saved",
    "attention",
    "causal attention",
    "grouped-query attention",
    "cached decoding",
    "mixture of experts with a ragged product",
    "LSTM by scan",
    "U-Net block",
    "MLP, vmap of grad",
    "Hessian-vector product",
    "Fourier convolution",
    "Cholesky solve",
    "QR",
    "sort: no FLOPs",
    "embedding",
    "scatter-add with donation",
    "Adam with donation",
    *(
        f"{by} with {kind}"
        for by in ("shard_map", "jit")
        for kind in ("all-gather", "reduce-scatter", "all-to-all", "permutation")
    ),
    "product of float8_e4m3fn",
    "int4 weights, bfloat16 activations",
    "loop with a dynamic bound",
]


def _suite(*options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "benchmarks.accuracy", *options]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=170, check=False
    )


def test_every_figure_of_every_program_is_right_and_agrees_with_xla_where_that_can_be_compared() -> None:
    done = _suite()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    listed = {re.split(r"\s{2,}", line)[0] for line in done.stdout.splitlines()}
    assert [name for name in FROM_REAL_USE if name not in listed] == []
    count, right, compared = (
        int(re.search(pattern, done.stdout, re.MULTILINE)[1])  # type: ignore[index]  # else the test fails here
        for pattern in (r"^(\d+) programs\.", r"jaxobs is right on (\d+)", r"On the (\d+) modules of real products")
    )  # fmt: skip
    assert count >= 60
    assert right == count
    assert compared >= 10
    assert re.search(r"XLA is right on \d+ programs' FLOPs, and \d+ of the \d+ with sharp bytes", done.stdout)


@pytest.mark.parametrize("python", ["/no/such/python", sys.executable])
def test_without_the_other_tool_the_table_says_so_and_is_there(python: str) -> None:
    done = _suite("--only", "three matrices", "--peers", python)
    assert done.returncode == 0, done.stderr
    assert "jaxobs is right on 1 programs" in done.stdout
    assert "datarax: no figures: " in done.stdout
