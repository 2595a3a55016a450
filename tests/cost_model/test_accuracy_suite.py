"""The accuracy suite as a user runs it; that its figures are right, `make accuracy` says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_programs_of_one_file_are_held_against_their_formulas() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "benchmarks.accuracy", "--only", "attention"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "jaxobs is right on 6 programs of 6" in done.stdout
