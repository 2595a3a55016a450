"""What the documentation lists is what the code has."""

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("script", ["generate_metrics.py", "generate_advice.py", "generate_settings.py"])
def test_the_tables_are_up_to_date(script: str) -> None:
    command = [sys.executable, str(DOCS / script), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
