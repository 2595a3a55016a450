"""The accuracy suite as a user runs it; that its figures are right, `make accuracy` says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_one_program_is_held_against_its_formula() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "benchmarks.accuracy", "--only", "three matrices"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "jaxobs is right on 1 programs of 1" in done.stdout
