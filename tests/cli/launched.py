"""The command `jaxobs` and scripts: in processes of their own, and what needs none in this one."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

from benchmarks.beside import without_settings
from jaxobs.cli import main
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


def command(*arguments: str, folder: Path, **extra: str) -> Outcome:
    """What the command says in this process: starting Python and importing it takes a hundred times as long."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, environment(**extra), clear=True),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            status = main(list(arguments))
        except SystemExit as ended:  # as `--help` does
            status = int(ended.code or 0)
    return Outcome(status, stdout.getvalue(), stderr.getvalue())


def without_summary(outcome: Outcome) -> Outcome:
    """What the script itself has written: the summary is the last thing on standard error."""
    return Outcome(outcome.status, outcome.stdout, re.sub(r"(?ms)^jaxobs: .*\Z", "", outcome.stderr))
