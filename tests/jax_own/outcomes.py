"""How the tests of one file of JAX's end in one mode: a pytest process of its own, with a time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
MODES = ("plain", "instrumented", "attached")


class Outcome(NamedTuple):
    """`passed`, `failed`, `skipped` or `error`, and the first line of why."""

    outcome: str
    why: str


def run(checkout: Path, tests: Sequence[str], mode: str, seconds: float) -> tuple[dict[str, Outcome], str]:
    """The outcome of each test of a file, or of single tests by name; and how the process ended, if not by itself."""
    with tempfile.TemporaryDirectory(prefix="jaxobs-jax-own-") as folder:
        written = Path(folder) / "outcomes"
        written.touch()
        environment = {
            **os.environ,
            "JAX_OWN_MODE": mode,
            "JAX_OWN_OUTCOMES": str(written),
            "JAX_PLATFORMS": "cpu",
            "OTEL_EXPORTER_PROMETHEUS_PORT": "0",
            "PYTHONPATH": str(HERE),
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "observed_tests",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:jaxobs",
            "-q",
        ]
        command += ["--no-header", "--tb=short", *tests]
        with (Path(folder) / "output").open("w+") as output:
            process = subprocess.Popen(
                command, cwd=checkout, env=environment, stdout=output, stderr=output, start_new_session=True
            )
            end = ""
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                end = f"ended after {seconds:.0f} s"
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            else:
                if status < 0 or status > 1:  # pytest's own: 0 all passed, 1 some failed
                    output.seek(0)
                    end = f"ended with status {status}: {output.read()[-300:].strip()}"
        return _read(written), end


def _read(written: Path) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    for line in written.read_text().splitlines():
        told = json.loads(line)
        before = outcomes.get(told["test"])
        if before is None or before.outcome in {
            "passed",
            "skipped",
        }:  # a test that passed may fail as it is put away
            outcomes[told["test"]] = Outcome(told["outcome"], told["why"])
    return outcomes
