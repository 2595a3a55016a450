"""What `jaxobs top` costs: `make benchmark NAME=live_view`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.costs.processes import processor_seconds
from benchmarks.costs.sections import Section, table
from tests.top.ranks import started

RANKS = 4
COLUMNS, LINES = 160, 50
LIMIT = 3.0
START_SECONDS, SECONDS = 15.0, 30.0
"""The view starts, which is no part of looking; then it is watched."""

_TEXT = f"""{RANKS} ranks that JAX joins, watched in a terminal of {COLUMNS} columns at the default refresh, over
{SECONDS:.0f} s."""


def percent_of_a_core(addresses: list[str]) -> float:
    """What `jaxobs top` takes of one core, once it has started, in a terminal that reads all it writes."""
    controller, terminal = pty.openpty()
    os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    process = subprocess.Popen(
        [sys.executable, "-m", "jaxobs", "top", *addresses],
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    threading.Thread(target=_read_all, args=(controller,), daemon=True).start()
    try:
        time.sleep(START_SECONDS)
        before, began = processor_seconds(psutil.Process(process.pid)), time.monotonic()
        time.sleep(SECONDS)
        after = processor_seconds(psutil.Process(process.pid))
        return 100 * (after - before) / (time.monotonic() - began)
    finally:
        process.terminate()
        process.wait(10)


def _read_all(controller: int) -> None:
    with suppress(OSError):
        while os.read(controller, 65_536):
            pass


def measure() -> Section:
    """One figure."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name, "input-0").write_text("0.001")
        job = started(Path(name), RANKS, 600)
        try:
            share = percent_of_a_core(job.addresses)
        finally:
            job.end()
    demands = {f"the view takes less than {LIMIT:g} % of a core": share < LIMIT}
    return Section(
        "The live view", [table("", _TEXT, ("the view, of a core",), [[f"{share:.2f} %"]])], demands
    )
