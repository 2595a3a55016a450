"""What one profiler window takes, part by part, and what the budget is charged for it against what the loop lost.

    python benchmarks/profile_window_parts.py [--loops operations matmul scan sparse]

Of windows of 0.1 s: start, stop() and bytes, microseconds of stop() an event, how much slower steps inside the window
are, and the longest step while stop() runs beside it. Then windows as long as scheduled ones are.
"""

# ruff: noqa: SLF001  # it looks inside the probe, which tells nobody when its next window is due

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from profiled_loops import LOOPS, loop, profiler_of


def one_window(name: str) -> None:
    """Print what a window of 0.1 s takes while that loop runs."""
    import threading

    from jaxobs.probe import jax_internals
    from jaxobs.trace import read_trace
    from jaxobs_plugins.profiler.recording import record

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
    module = jax_internals.profiler_module()
    for turn in range(4):
        recorded = record(module, module.ProfilerSession, lambda: time.sleep(0.1) or True)
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


def counted(name: str, windows: int = 12, pause: float = 1.5) -> None:
    """Print what the budget is charged for a window as long as scheduled ones are, and what the loop really lost.

    Lost: the time from the window's beginning until half a second after `stop()`, while the agent reads the trace, less
    what its steps take in the second before.
    """
    import threading

    import jaxobs

    function, x = loop(name)
    with jaxobs.instrument(prometheus=False) as obs:
        probe, told = profiler_of(obs)
        spans: list[tuple[int, int]] = []
        ends: list[int] = []
        asking = True

        def ask() -> None:
            nonlocal asking
            time.sleep(4.0)
            for _ in range(windows):
                probe.profile(probe._windows.schedule.next_length(probe._pace.step_seconds), False).result()
                ends.append(time.monotonic_ns())
                time.sleep(pause)
            asking = False

        step = obs.watch(function)
        threading.Thread(target=ask).start()
        for _ in obs.steps(iter(lambda: asking, False)):
            began = time.monotonic_ns()
            step(x).block_until_ready()
            if name == "sparse":
                time.sleep(0.02)
            spans.append((began, time.monotonic_ns()))
    charged, lost, lengths = [], [], []
    for window, ended in zip(
        told[-len(ends) + 2 :], ends[2:], strict=True
    ):  # the first are for finding the length
        until = ended + 5 * 10**8
        inside = [end - begin for begin, end in spans if begin >= window.start and end <= until]
        before = [
            end - begin for begin, end in spans if window.start - 10**9 <= begin and end <= window.start
        ]
        usual = statistics.fmean(before)
        lost.append((sum(inside) - len(inside) * usual) / 1e6)
        charged.append(window.cost / 1e6)
        lengths.append((window.end - window.start) / 1e6)
    print(
        f"{name:12}window {statistics.median(lengths):7.1f} ms  charged median {statistics.median(charged):7.1f} ms  "
        f"lost median {statistics.median(lost):7.1f} ms, mean {statistics.fmean(lost):7.1f} ms",
        flush=True,
    )


def main() -> None:
    """Print everything, each loop in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loops", nargs="*", choices=LOOPS, default=LOOPS)
    parser.add_argument("--window", choices=LOOPS)
    parser.add_argument("--counted", choices=LOOPS)
    options = parser.parse_args()
    if options.window:
        one_window(options.window)
    elif options.counted:
        counted(options.counted)
    else:
        for what in ("--window", "--counted"):
            for name in options.loops:
                subprocess.run([sys.executable, __file__, what, name], check=True)


if __name__ == "__main__":
    main()
