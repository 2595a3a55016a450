"""Real jobs of one rank or more, as `jaxobs top` watches them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.beside import free_port
from tests.jobs import environment

INPUT_SECONDS = 0.02
"""What a rank waits for its input, unless a file says otherwise."""

PEAKS = {"JAXOBS_PEAK_FLOPS": '{"float32": 2.5e11}', "JAXOBS_PEAK_BYTES_PER_SECOND": "1.8e10"}


@dataclass
class Job:
    """Processes of one training, the addresses of their pages, and the folder of files that they follow."""

    processes: list[subprocess.Popen[str]]
    addresses: list[str]
    folder: Path

    def end(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.communicate(timeout=30)


def started(folder: Path, ranks: int, seconds: int, **extra: str) -> Job:
    """A training of so many ranks, which `targets` in its folder names, for so long at most."""
    settings = environment(
        **PEAKS, JAXOBS_RUN="demo", JAXOBS_FILE_SD_DIRECTORY=str(folder / "targets"),
        WORLD_SIZE=str(ranks), COORDINATOR=f"127.0.0.1:{free_port()}", **extra,
    )  # fmt: skip
    processes = [
        subprocess.Popen(
            [sys.executable, Path(__file__).with_name("job.py"), folder, str(seconds)],
            env=settings | {"RANK": str(rank)},
            stdout=subprocess.PIPE, text=True,
        )
        for rank in range(ranks)
    ]  # fmt: skip
    job = Job(processes, [], folder)
    try:
        job.addresses = [_address(process) for process in processes]
    except BaseException:
        job.end()
        raise
    return job


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("http"):
            return line.strip().removesuffix("metrics")
    raise AssertionError("a rank ended before it had an address")
