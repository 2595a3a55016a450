"""How much later a job ends with jaxobs than without, from its last line to the end of process and output.

    python -m benchmarks.exit_seconds [--runs 20] [--only NAME]

Five cases, each run in turn with the same job without jaxobs, so that what else the machine does falls on both: a
second of steps observed by `instrument()`, by `jaxobs run`, with an OTLP endpoint where nobody listens, and with one that
accepts and never answers; and five seconds of steps. Prints the median, its 95 % interval and the longest, in seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.beside import free_port, without_settings
from benchmarks.paired import median

JOB = """
import os, sys, time
import jax
obs = None
if "instrument" in sys.argv:
    import jaxobs
    obs = jaxobs.instrument()
step = jax.jit(lambda x: x @ x)
if obs is not None:
    step = obs.watch(step)
x, until = jax.numpy.ones((50, 50)), time.monotonic() + float(sys.argv[1])
def turns():
    while time.monotonic() < until: yield 1
for _ in obs.steps(turns()) if obs is not None else turns():
    step(x).block_until_ready()
    time.sleep(0.01)
print("END", flush=True)
"""


class Case(NamedTuple):
    """A job and how it is observed."""

    name: str
    seconds: float = 1.0
    launched: bool = False
    endpoint: str = ""
    """`dead` or `black hole`; empty where there is none."""


CASES = (
    Case("instrument()"),
    Case("jaxobs run", launched=True),
    Case("dead endpoint", endpoint="dead"),
    Case("black hole", endpoint="black hole"),
    Case("five seconds of steps", seconds=5.0),
)


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """The port of an endpoint that accepts and never answers: the kernel accepts, and nobody takes the connection."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        yield server.getsockname()[1]


def seconds_to_end(job: Path, case: Case, endpoint: str, *, observed: bool) -> float:
    """Seconds from the job's last line to the end of the process and of its output."""
    environment = {**without_settings(), "JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
    command = [sys.executable]
    if observed:
        environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint} if endpoint else {}
        command += ["-m", "jaxobs", "run", "--"] if case.launched else []
    command += [str(job), str(case.seconds), *(["instrument"] if observed and not case.launched else [])]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "END\n":
                break
        began = time.monotonic()
        rest = process.stdout.read()
        if process.wait():
            raise SystemExit(f"the job of {case.name} ended with status {process.returncode}: {rest}")
        return time.monotonic() - began


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, black_hole() as hole:
        job = Path(folder) / "job.py"
        job.write_text(JOB)
        endpoints = {
            "dead": f"http://127.0.0.1:{free_port()}",
            "black hole": f"http://127.0.0.1:{hole}",
            "": "",
        }
        for case in CASES:
            if given.only and case.name != given.only:
                continue
            later = []
            for _ in range(given.runs):
                plain = seconds_to_end(job, case, "", observed=False)
                later.append(seconds_to_end(job, case, endpoints[case.endpoint], observed=True) - plain)
            print(f"{case.name:22} {median(later)} s later, at most {max(later):.2f}", flush=True)


if __name__ == "__main__":
    main()
