"""Loops built so that one cause takes at least three times its runner-up: whether their label is that."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.beside import ROOT
from benchmarks.gpu_check.findings import Findings
from benchmarks.truths import know_peaks, label

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

OFF = "--xla_gpu_enable_command_buffer="
"""An empty set of what goes into command buffers, as XLA's own error advises where they do not fit (jaxlib 0.11.2)."""


def labels(told: Findings) -> None:
    """Each loop in a process of its own, as `python -m benchmarks.labels` runs them on a CPU."""
    if told.on_gpu:
        run_loops(told, ALONE, {})
    else:
        know_peaks()
        told.unmeasured("loop transfer", "device and host are one on a CPU")
        run_loops(told, [name for name in ALONE if name != "transfer"], {})
    at_once = len(IDLE) if (os.cpu_count() or 1) >= 2 * len(IDLE) else 1
    run_loops(told, IDLE, {}, at_once=at_once)


def run_loops(told: Findings, names: Sequence[str], variables: dict[str, str], at_once: int = 1) -> None:
    """Run so many at once."""
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda name: run_loop(told, name, variables), names))


def run_loop(told: Findings, name: str, variables: dict[str, str]) -> None:
    """Run it, and say what it was called, or why it was not."""
    seconds = SECONDS if told.on_gpu else SECONDS_OF_A_CPU
    # Several share the device: none may take most of its memory.
    variables = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **variables}
    try:
        done = told.run(name, LOOPS, "marked", name, str(seconds), timeout=MAX_SECONDS, variables=variables)
    except subprocess.TimeoutExpired:
        told.unmeasured(f"loop {name}", f"it did not end within {MAX_SECONDS:.0f} s")
        return
    if done.status:
        said = " ".join(done.stderr.strip().splitlines()[-1:])[:300]
        told.unmeasured(f"loop {name}", f"it ended with status {done.status}: {said}")
        return
    found = label(*ALSO.get(name, ()))(done)
    told.keep_json(f"{name}.json", done.loop)
    shown = found.found or "none clear"
    told.figure(f"loop {name}", shown, found.truth, source=f"construction; {found.note}")


def labels_without_command_buffers(told: Findings) -> None:
    """The loops that keep the device busy, with every operation launched by itself."""
    if not told.on_gpu:
        told.unmeasured("loops without command buffers", "only a GPU has command buffers")
        return
    flags = f"{os.environ.get('XLA_FLAGS', '')} {OFF}".strip()
    run_loops(told, ("latency", "compute", "memory"), {"XLA_FLAGS": flags})
