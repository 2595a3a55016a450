"""A pytest plugin that puts jaxobs into the process that runs JAX's own tests, and writes down how each test ended.

JAX_OWN_MODE is `plain`, `instrumented`, or `attached` as launchers do: all that is jitted is watched. JAX_OWN_OUTCOMES is
the file, a line of JSON for each test, so that what had ended is known when a later test takes the process with it.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

OUTCOMES = Path(os.environ["JAX_OWN_OUTCOMES"])


def pytest_configure() -> None:
    """Before any test file is imported, as a training script would."""
    with contextlib.suppress(ImportError):
        from absl import flags

        flags.FLAGS.mark_as_parsed()  # absl's own runner would; some tests ask for its folder for files
    mode = os.environ["JAX_OWN_MODE"]
    if mode == "plain":
        return
    import jaxobs
    from jaxobs.instrument import attach

    if mode == "attached":
        attach()
    else:
        jaxobs.instrument()


@pytest.hookimpl
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """One line a phase that matters: the call, or what kept it from being made."""
    if report.when != "call" and report.outcome == "passed":
        return
    outcome = report.outcome if report.when == "call" or report.outcome == "skipped" else "error"
    write(report.nodeid, outcome, reason(report))


@pytest.hookimpl
def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that could not be imported."""
    if report.outcome == "failed":
        write(report.nodeid, "error", reason(report))


def reason(report: Any) -> str:
    """The first line of what a failure says."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr or "")
    return next(iter(text.strip().splitlines()), "") if report.outcome == "failed" else ""


def write(test: str, outcome: str, why: str) -> None:
    """To the end of the file."""
    with OUTCOMES.open("a") as file:
        file.write(json.dumps({"test": test, "outcome": outcome, "why": why}) + "\n")
