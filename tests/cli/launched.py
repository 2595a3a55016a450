"""Running a script as Python does and as `jaxobs run` does, in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.beside import without_settings
from tests.jobs import ROOT, Outcome

JAXOBS = [sys.executable, "-m", "jaxobs"]


def environment(**extra: str) -> dict[str, str]:
    """This process's environment, without settings of jaxobs, with this source tree importable and any free port."""
    kept = without_settings()
    path = [str(ROOT), str(ROOT / "plugins"), *filter(None, [kept.get("PYTHONPATH")])]
    own = {"PYTHONPATH": os.pathsep.join(path), "JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
    return {**kept, **own, **extra}


def outcome(command: list[str], folder: Path, **extra: str) -> Outcome:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def jaxobs(*arguments: str, folder: Path, **extra: str) -> Outcome:
    return outcome([*JAXOBS, *arguments], folder, **extra)


def without_summary(outcome: Outcome) -> Outcome:
    """What the script itself has written: the summary is the last thing on standard error."""
    return Outcome(outcome.status, outcome.stdout, re.sub(r"(?ms)^jaxobs: .*\Z", "", outcome.stderr))
