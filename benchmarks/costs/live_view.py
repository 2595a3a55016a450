"""What `jaxobs top` costs, and what a job feels of it: `make benchmark NAME=live_view`."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import psutil

from benchmarks.costs.processes import processor_seconds
from benchmarks.costs.sections import Cell, Demand, Section, Table, middle, ratio
from benchmarks.paired import take_turns
from tests.top.ranks import started

RANKS = 4
COLUMNS, LINES = 160, 50
LIMIT = 3.0
START_SECONDS, SECONDS = 15.0, 30.0
"""The view starts, which is no part of looking; then it is watched."""
PAIRS, PERIOD_SECONDS = 6, 10.0

_TEXT = f"""{RANKS} ranks that JAX joins, watched in a terminal of {COLUMNS} columns at the default refresh: the
processor time of the view in per cent of a core, over {SECONDS:.0f} s. Then the first rank's step time in
{PAIRS} turns with the view, over that without."""


@contextmanager
def view(addresses: list[str]) -> Iterator[psutil.Process]:
    """`jaxobs top` in a terminal that reads all it writes, once it has started."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    process = subprocess.Popen(
        [sys.executable, "-m", "jaxobs", "top", *addresses],
        stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    threading.Thread(target=_read_all, args=(controller,), daemon=True).start()
    try:
        time.sleep(START_SECONDS)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(10)


def _read_all(controller: int) -> None:
    with suppress(OSError):
        while os.read(controller, 65_536):
            pass


def percent_of_a_core(process: psutil.Process) -> float:
    """What a process takes of one core."""
    before, began = processor_seconds(process), time.monotonic()
    time.sleep(SECONDS)
    return 100 * (processor_seconds(process) - before) / (time.monotonic() - began)


def step_seconds(address: str, beside: Callable[[], AbstractContextManager[object]]) -> float:
    """The mean step of one period, between two snapshots, and what runs beside it."""
    with beside():
        began, first = _steps(address)
        time.sleep(PERIOD_SECONDS)
        ended, last = _steps(address)
    return (ended - began) / (last - first)


def _steps(address: str) -> tuple[float, int]:
    with urllib.request.urlopen(f"{address}snapshot") as response:
        found = json.load(response)
    return found["unix_seconds"], found["snapshot"]["loops"]["train"]["steps"]


def measure() -> Section:
    """Both."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as at_the_end:
        Path(name, "input-0").write_text("0.001")
        job = started(Path(name), RANKS, 600)
        at_the_end.callback(job.end)
        with view(job.addresses) as process:
            share = percent_of_a_core(process)
        step = partial(step_seconds, job.addresses[0])
        found = take_turns(
            {"without": partial(step, nullcontext), "beside": partial(step, partial(view, job.addresses))},
            PAIRS,
        )
    without, beside = found["without"], found["beside"]
    row: list[Cell] = [f"{share:.2f} %", middle(without), middle(beside), ratio(beside, without)]
    columns = ("the view, of a core", "a step without it", "a step with it", "with / without")
    demand = Demand(f"the view takes less than {LIMIT:g} % of a core", share < LIMIT)
    return Section("The live view", [Table("", _TEXT, columns, [row])], [demand])
