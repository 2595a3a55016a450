"""Loops built so that one cause takes at least three times its runner-up: whether their label is that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.gpu_check.figures import Findings
from benchmarks.gpu_check.machine import ROOT
from jaxobs.cli.demonstration.peaks import ensure_peaks
from jaxobs.config import load_settings

SECONDS = 9.0
SECONDS_OF_A_CPU = 7.0

ALONE = ("compute", "memory", "latency", "transfer")
"""Those that keep the device busy, one after the other."""

IDLE = ("input", "host", "checkpoint", "compile")
"""Those that leave it idle: all at once where there are cores for them."""

ALLOWED = {"latency": ("latency", "host")}
"""A chain of kernels of a few microseconds may be bound by the host that launches them: without command buffers launching
one takes about as long as it runs (2 to 10 µs; CUDA programming guide, "CUDA Graphs")."""

MOST_SECONDS = 60.0


def check(told: Findings) -> None:
    """Each loop in a process of its own, as `python -m benchmarks.labels` runs them on a CPU."""
    if told.on_gpu:
        run_loops(told, ALONE, {})
    else:
        ensure_peaks(load_settings())  # without them nothing is compute, memory or latency
        told.unmeasured("loop transfer", "device and host are one on a CPU")
        run_loops(told, [name for name in ALONE if name != "transfer"], {})
    at_once = len(IDLE) if (os.cpu_count() or 1) >= 2 * len(IDLE) else 1
    run_loops(told, IDLE, {}, at_once=at_once)


def run_loops(told: Findings, names: Sequence[str], variables: dict[str, str], at_once: int = 1) -> None:
    """Run so many at once and say what they were called."""
    with ThreadPoolExecutor(at_once) as pool:
        answers = pool.map(lambda name: (name, _run(told, name, variables)), names)
        for name, answer in answers:
            if isinstance(answer, str):
                told.unmeasured(f"loop {name}", answer)
                continue
            told.keep_json(f"{name}.json", answer)
            allowed = ALLOWED.get(name, (name,))
            truth = answer["label"] if answer["label"] in allowed else allowed[0]
            told.figure(f"loop {name}", answer["label"], truth, source=_shares(answer))


def _run(told: Findings, name: str, variables: dict[str, str]) -> dict[str, Any] | str:
    """Its answer, or why there is none."""
    seconds = SECONDS if told.on_gpu else SECONDS_OF_A_CPU
    # Several share the device: none may take most of its memory.
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | variables
    command = [sys.executable, "-m", "benchmarks.labels.loops", "--loop", name, "--seconds", str(seconds)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=MOST_SECONDS, check=False, cwd=ROOT
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it did not end within {MOST_SECONDS:.0f} s"
    told.evidence(f"{name}.txt").write_text(done.stdout[-20_000:] + done.stderr[-50_000:], encoding="utf-8")
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return f"it ended with status {done.returncode}: {said[-1][:300] if said else ''}"
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _shares(answer: dict[str, Any]) -> str:
    shares = sorted(answer["shares"].items(), key=lambda pair: -pair[1])[:3]
    told = ", ".join(f"{word} {share:.0%}" for word, share in shares)
    return f"construction; {told}; confidence {answer['confidence']:.2f}, {answer['windows']} windows"
