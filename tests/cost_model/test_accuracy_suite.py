"""The accuracy suite as a user runs it; that its figures are right, `make accuracy` says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _suite(*options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "benchmarks.accuracy", *options]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=170, check=False
    )


def test_without_the_other_tool_the_table_says_so_and_is_there() -> None:
    done = _suite("--only", "three matrices", "--peers", "/no/such/python")
    assert done.returncode == 0, done.stderr
    assert "jaxobs is right on 1 programs of 1" in done.stdout
    assert "datarax: no figures: " in done.stdout
