"""What the dearest window takes that a job can provoke: `python -m benchmarks.profiler_windows.parts`.

Of scheduled windows that meet a loop of millions of operations a second unprepared: how long they were, what was charged
(`stop()` and all), and memory at its peak.
"""

# ruff: noqa: SLF001  # it looks inside the probe, which tells nobody when its next window is due

from __future__ import annotations

import dataclasses
import resource
import subprocess
import sys
import threading
import time
from typing import Any

from benchmarks.profiler_windows.loops import loop, profiler_of

DENSE = ("dense", "wide", "tiny")


CHANGES = ("first", "recompiled", "changed", "changed within")


def worst(change: str, name: str) -> None:
    """Print what a scheduled window takes that meets a loop of very many operations a second.

    `first`: the job's first window. `recompiled`: the job ran another loop in its windows before. `changed`: the same,
    and both had been compiled when they were made. `changed within`: the same, and it changes half a second after the
    beginning of a window that was to be of two seconds.
    """
    import jaxobs

    dense, x = loop(name)
    calm, y = loop("sparse")
    with jaxobs.instrument(prometheus=False) as obs:
        step = obs.watch(calm)
        step(y).block_until_ready()
        if change != "recompiled":
            dense(x).block_until_ready()
        turned = threading.Event()
        meeting = threading.Thread(target=meet, args=(obs, change, name, turned))
        meeting.start()
        for _ in obs.steps(iter(meeting.is_alive, False)):
            if turned.is_set():
                dense(x).block_until_ready()
            else:
                step(y).block_until_ready()
                time.sleep(0.02)


def meet(obs: Any, change: str, name: str, turned: threading.Event) -> None:
    """Make the windows of `worst`; setting `turned` changes the loop."""
    probe, told = profiler_of(obs)
    windows = probe._windows
    windows.due = lambda progress: float("inf")

    def window() -> Any:
        time.sleep(4.0)  # until the pace is known
        count = len(told)
        probe.begin(windows.scheduled)
        while len(told) == count:
            time.sleep(0.01)
        return told[-1]

    if change != "first":
        window()
        window()
        # as in a job of slow steps, whose windows are as long as they may be
        windows.schedule = dataclasses.replace(windows.schedule, density=1e4)
    # Four seconds until the window begins, and half a second of it.
    threading.Timer(4.5 if change == "changed within" else 0.0, turned.set).start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    last = window()
    grew = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"{name:8}{change:16}{last.outcome:10} {(last.end - last.start) / 1e6:7.1f} ms  "
        f"charged {last.cost / 1e6:7.1f} ms  trace {len(last.xspace or b'') / 1e6:6.2f} MB  "
        f"peak memory {grew:+.0f} MiB  {last.reason}",
        flush=True,
    )


def main() -> None:
    """Print everything, each loop in a process of its own."""
    if sys.argv[1:]:
        worst(*sys.argv[1:])
        return
    for name in DENSE:
        for change in CHANGES:
            subprocess.run(
                [sys.executable, "-m", "benchmarks.profiler_windows.parts", change, name], check=True
            )


if __name__ == "__main__":
    main()
