"""Run a script as it is, under `jaxobs run`, or with marks of its own, and keep what jaxobs said all along."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from benchmarks.beside import install, job_environment
from benchmarks.jaxobs_documents import FOLDER, NO_BOUND

EXPORTER = Path(__file__).with_name("jaxobs_documents.py")
SUMMARIES = "runs/*/killed.txt"

How = Literal["plain", "observed", "marked"]
"""`observed`: `jaxobs run -- script`. `marked`: JAXOBS_TEST_MARK is set, by which the script marks itself."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """What became of a script. `documents`: the snapshots of each observed process, the one with the most first."""

    status: int
    stdout: str
    stderr: str
    seconds: float
    documents: list[list[Document]] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)
    """Texts that jaxobs left in the folder for the last summaries of jobs that are killed."""
    ended: float = 0.0
    """Seconds of Unix time."""

    @property
    def truth(self) -> dict[str, Any]:
        """What the script says of itself by its own clock, in its last line of the form {"truth": {…}}; or nothing."""
        told = [line for line in self.stdout.splitlines() if line.startswith('{"truth": ')]
        return dict(json.loads(told[-1])["truth"]) if told else {}

    @property
    def snapshots(self) -> list[Document]:
        """Those of the process that was observed longest; empty where none was."""
        return self.documents[0] if self.documents else []

    @property
    def last(self) -> Document | None:
        """The last of these, or None where there is none."""
        return self.snapshots[-1] if self.snapshots else None

    @property
    def loop(self) -> Document:
        """The loop that took longest, from the last snapshot in which it has a rate; empty where none has."""
        for document in reversed(self.snapshots):
            loops: list[Document] = list((document["loops"] or {}).values())
            rated = [loop for loop in loops if loop["steps_per_second"] is not None]
            if rated:
                return max(rated, key=lambda loop: loop["wall_seconds"])
        return {}

    @property
    def executable(self) -> Document:
        """The executable with the most matrix FLOPs; empty where none is known."""
        known = [one for one in (self.last or {}).get("executables") or [] if one["cost"]]
        return max(known, key=lambda one: one["cost"]["matrix_flops"], default={})

    @property
    def quantiles(self) -> dict[str, float]:
        """p50, p95 and p99 of jaxobs_step_seconds, as Prometheus would tell them from its buckets."""
        loops = ((self.last or {}).get("histograms") or {}).get("jaxobs_step_seconds") or {}
        buckets: list[list[float]] = max(loops.values(), key=lambda found: found[-1][1], default=[])
        return {f"p{q}": value for q in (50, 95, 99) if (value := histogram_quantile(buckets, q / 100))}

    @property
    def summary(self) -> str:
        """What `jaxobs run` wrote behind the script's own words, or nothing."""
        found = re.search(r"(?ms)^jaxobs: .*\Z", self.stderr)
        return found.group() if found else ""


def histogram_quantile(buckets: list[list[float]], quantile: float) -> float | None:
    """Of cumulative (upper bound, count) pairs, linear within a bucket as PromQL has it; None where there are none."""
    if not buckets or not buckets[-1][1]:
        return None
    wanted, low, below = quantile * buckets[-1][1], 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted:
            return low if bound >= NO_BOUND else low + (bound - low) * (wanted - below) / (count - below)
        low, below = bound, count
    return low


def run(
    script: Path,
    *arguments: str,
    how: How,
    timeout: float = 240.0,
    python: Path | str = sys.executable,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Run:
    """Run it to its end in a folder of its own.

    Raises subprocess.TimeoutExpired where it does not end, and has then killed it.
    """
    with tempfile.TemporaryDirectory(prefix="observed-") as name:
        folder = Path(name)
        documents = folder / "documents"
        documents.mkdir()
        entry_point = {"jaxobs.exporters": "documents = jaxobs_documents:DocumentExporter"}
        install(folder / "plugin", "jaxobs_documents", EXPORTER.read_text(), entry_point)
        launcher = ["-m", "jaxobs", "run", "--"] if how == "observed" else []
        began = time.perf_counter()
        ended = subprocess.run(
            [str(python), *launcher, str(script), *arguments],
            cwd=folder, env=_environment(folder, how) | dict(environment),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        seconds, at = time.perf_counter() - began, time.time()
        until = time.monotonic() + (5.0 if ended.returncode < 0 else 0.0)
        while time.monotonic() < until and not [*folder.glob(SUMMARIES)]:
            time.sleep(0.1)  # the agent of a job that was killed writes after it
        summaries = [path.read_text() for path in folder.glob(SUMMARIES)]
        found = _read(documents), summaries
        return Run(ended.returncode, ended.stdout, ended.stderr, seconds, *found, at)


def _environment(folder: Path, how: How) -> dict[str, str]:
    own = {
        "JAXOBS_RUN_DIRECTORY": str(folder / "runs"),
        FOLDER: str(folder / "documents"),
        "PYTHONHASHSEED": "0",
    }
    return job_environment(folder / "plugin", **own, **({"JAXOBS_TEST_MARK": "1"} if how == "marked" else {}))


def _read(folder: Path) -> list[list[Document]]:
    """Snapshots by process; one that is cut, because its process was killed, is left out."""
    texts = (path.read_text().split("\n")[:-1] for path in folder.iterdir())
    runs = ([json.loads(line) for line in lines if line] for lines in texts)
    return sorted(filter(None, runs), key=len, reverse=True)
