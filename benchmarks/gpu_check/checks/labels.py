"""Loops built so that one cause takes at least three times its runner-up: whether their label is that."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from benchmarks.beside import ROOT
from benchmarks.gpu_check.place import Place
from benchmarks.truths import Figure, know_peaks, label

LOOPS = ROOT / "benchmarks" / "programs" / "loops.py"
SECONDS = 9.0
SECONDS_OF_A_CPU = 7.0

ALONE = ("compute", "memory", "latency", "transfer")
"""Those that keep the device busy, one after the other."""

IDLE = ("input", "host", "checkpoint", "compile")
"""Those that leave it idle: all at once where there are cores for them."""

ALSO = {"latency": ("host",)}
"""A chain of kernels of a few microseconds may be bound by the host that launches them: without command buffers launching
one takes about as long as it runs (2 to 10 µs; CUDA programming guide, "CUDA Graphs")."""

MAX_SECONDS = 60.0


def labels(place: Place) -> Iterator[Figure]:
    """Each loop in a process of its own, as `python -m benchmarks.labels` runs them on a CPU."""
    if not place.on_gpu:
        know_peaks()
        yield Figure("loop transfer", reason="device and host are one on a CPU")
    for name in ALONE:
        if place.on_gpu or name != "transfer":
            yield run_loop(place, name)
    at_once = len(IDLE) if (os.cpu_count() or 1) >= 2 * len(IDLE) else 1
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(lambda name: run_loop(place, name), IDLE)


def run_loop(place: Place, name: str) -> Figure:
    """Run it, and say what it was called, or why it was not."""
    seconds = SECONDS if place.on_gpu else SECONDS_OF_A_CPU
    # Several share the device: none may take most of its memory.
    variables = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    try:
        done = place.run(name, LOOPS, "marked", name, str(seconds), timeout=MAX_SECONDS, variables=variables)
    except subprocess.TimeoutExpired:
        return Figure(f"loop {name}", reason=f"it did not end within {MAX_SECONDS:.0f} s")
    if done.status:
        return Figure(f"loop {name}", reason=f"it ended with status {done.status}: {done.stderr[-300:]}")
    place.keep_json(f"{name}.json", done.loop)
    found = label(*ALSO.get(name, ()))(done)
    return replace(found, name=f"loop {name}", found=found.found or "none clear")
