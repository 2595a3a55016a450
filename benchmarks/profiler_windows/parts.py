"""What one profiler window takes, part by part, and what the dearest takes that a job can provoke.

    python -m benchmarks.profiler_windows.parts [--loops operations matmul scan sparse]

Of windows of 0.1 s: start, stop() and bytes, microseconds of stop() an event, how much slower steps inside the window
are, and the longest step while stop() runs beside it. Then, of scheduled windows that meet a loop of millions of
operations a second unprepared: how long they were, what was charged (`stop()` and all), and memory at its peak.
"""

# ruff: noqa: SLF001  # it looks inside the probe, which tells nobody when its next window is due

from __future__ import annotations

import argparse
import dataclasses
import resource
import statistics
import subprocess
import sys
import threading
import time
from typing import Any

from benchmarks.profiler_windows.loops import LOOPS, loop, profiler_of

DENSE = ("dense", "wide", "tiny")


def a_tenth_of_a_second() -> Any:
    """Waits so long, and wants the trace."""
    from jaxobs_plugins.probes.profiler.recording import Ended

    time.sleep(0.1)
    return Ended.WHOLE


def one_window(name: str) -> None:
    """Print what a window of 0.1 s takes while that loop runs."""
    from jaxobs.jax_compat.runtime import profiler_module
    from jaxobs.trace import read_trace
    from jaxobs_plugins.probes.profiler.recording import record

    function, x = loop(name)
    function(x).block_until_ready()
    times: list[tuple[int, int]] = []
    stopped = False

    def run() -> None:
        while not stopped:
            began = time.monotonic_ns()
            function(x).block_until_ready()
            times.append((began, time.monotonic_ns()))

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(1.0)
    module = profiler_module()
    for turn in range(4):
        recorded = record(module, module.ProfilerSession, a_tenth_of_a_second)
        time.sleep(0.3)
        if turn == 0:
            continue  # the first of a process takes longer

        def steps(begin: int, end: int) -> list[float]:
            return [(b - a) / 1e6 for a, b in list(times) if b > begin and a < end]

        assert recorded.xspace is not None
        trace = read_trace(recorded.xspace)
        events = max(1, sum(host.events for host in trace.hosts))
        inside = statistics.median(steps(recorded.start, recorded.end))
        outside = statistics.median(steps(recorded.starting - 10**9, recorded.starting))
        beside = steps(recorded.end, recorded.stopped)
        stop = recorded.stopped - recorded.end
        print(
            f"{name:12}start {(recorded.start - recorded.starting) / 1e6:6.2f} ms  stop {stop / 1e6:7.1f} ms  "
            f"{len(recorded.xspace) / 1e6:6.2f} MB  {events:7} events  {stop / 1e3 / events:5.2f} us/event  "
            f"steps {outside:.3f} -> {inside:.3f} ms  beside stop() median {statistics.median(beside):.3f} ms, "
            f"longest {max(beside):.1f} ms",
            flush=True,
        )
    stopped = True
    thread.join()


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
        turned, over = threading.Event(), threading.Event()
        meeting = threading.Thread(target=meet, args=(obs, change, name, turned))
        meeting.start()

        def end() -> None:
            meeting.join()
            over.set()

        threading.Thread(target=end).start()
        for _ in obs.steps(iter(over.is_set, True)):
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
        if turned_within:
            threading.Timer(0.5, turned.set).start()
        probe._worker.give(windows.scheduled)
        while len(told) == count:
            time.sleep(0.01)
        return told[-1]

    turned_within = False
    if change != "first":
        window()
        window()
        # as in a job of slow steps, whose windows are as long as they may be
        windows.schedule = dataclasses.replace(windows.schedule, density=1e4)
    if change == "changed within":
        turned_within = True
    else:
        turned.set()
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--loops", nargs="*", choices=LOOPS, default=("operations", "matmul", "scan", "sparse")
    )
    parser.add_argument("--window", choices=LOOPS)
    parser.add_argument("--worst", choices=CHANGES)
    options = parser.parse_args()
    if options.worst:
        worst(options.worst, options.loops[0])
    elif options.window:
        one_window(options.window)
    else:
        this = [sys.executable, "-m", "benchmarks.profiler_windows.parts"]
        for name in options.loops:
            subprocess.run([*this, "--window", name], check=True)
        for name in DENSE:
            for change in CHANGES:
                subprocess.run([*this, "--worst", change, "--loops", name], check=True)


if __name__ == "__main__":
    main()
