"""What `jaxobs top` costs, and what a job feels of it: `python -m benchmarks.live_view`.

First four ranks that JAX joins, watched in a terminal of 160 columns at the default refresh: the processor time of the
view as a share of a core. Then one job whose steps take a few milliseconds, in turns with and without the view: the ratio
of its step times, with the range of the single pairs. Exit status 1 where the view takes 3 % of a core or more.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from benchmarks.beside import free_port, without_settings

JOB = Path(__file__).parents[1] / "tests" / "top" / "job.py"
RANKS = 4
COLUMNS, LINES = 160, 50
LIMIT = 0.03
START_SECONDS, SECONDS = 15.0, 30.0
PAIRS, PERIOD_SECONDS = 6, 10.0


@contextmanager
def ranks(count: int, folder: Path) -> Iterator[list[str]]:
    """The addresses of a job's ranks, which end with the block."""
    settings = without_settings() | {
        "JAX_PLATFORMS": "cpu", "JAXOBS_RUN": "benchmark", "JAXOBS_FILE_SD_DIRECTORY": str(folder / "targets"),
        "OTEL_EXPORTER_PROMETHEUS_PORT": "0", "WORLD_SIZE": str(count), "COORDINATOR": f"127.0.0.1:{free_port()}",
    }  # fmt: skip
    processes = [
        subprocess.Popen(
            [sys.executable, JOB, folder, "600"],
            env=settings | {"RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for rank in range(count)
    ]  # fmt: skip
    try:
        yield [_address(process) for process in processes]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("http"):
            return line.strip().removesuffix("metrics")
    raise SystemExit("a rank ended before it had an address")


@contextmanager
def view(*arguments: str) -> Iterator[psutil.Process]:
    """`jaxobs top` in a terminal that reads all it writes."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    process = subprocess.Popen(
        [sys.executable, "-m", "jaxobs", "top", *arguments],
        stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    threading.Thread(target=_read_all, args=(controller,), daemon=True).start()
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(10)


def _read_all(controller: int) -> None:
    with suppress(OSError):
        while os.read(controller, 65_536):
            pass


def share_of_a_core(process: psutil.Process) -> float:
    """What a process takes of one core, after it has started."""
    time.sleep(START_SECONDS)
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(SECONDS)
    if process.status() == psutil.STATUS_ZOMBIE:
        raise SystemExit("the view has ended")
    after = process.cpu_times()
    spent = after.user - before.user + after.system - before.system
    return spent / (time.monotonic() - began)


def step_seconds(address: str) -> float:
    """The mean step of one period, between two snapshots."""
    began, first = _steps(address)
    time.sleep(PERIOD_SECONDS)
    ended, last = _steps(address)
    return (ended - began) / (last - first)


def _steps(address: str) -> tuple[float, int]:
    with urllib.request.urlopen(f"{address}snapshot") as response:
        found = json.load(response)
    return found["unix_seconds"], found["snapshot"]["loops"]["train"]["steps"]


def main() -> int:
    """The exit status."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with ranks(RANKS, folder) as addresses, view(*addresses) as process:
            share = share_of_a_core(process)
    print(
        f"{RANKS} ranks, {COLUMNS} × {LINES}: the view takes {100 * share:.2f} % of a core (limit {100 * LIMIT:g} %)",
        flush=True,
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "input-0").write_text("0.001")
        with ranks(1, folder) as [address]:
            time.sleep(START_SECONDS)
            ratios = []
            for _ in range(PAIRS):
                without = step_seconds(address)
                with view(address):
                    time.sleep(2.0)  # it starts: that is no part of looking
                    ratios.append(step_seconds(address) / without)
    median = statistics.median(ratios)
    print(
        f"a step with the view: {median:.4f} times one without ({min(ratios):.4f} to {max(ratios):.4f}, {PAIRS} pairs)"
    )
    return 1 if share >= LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
