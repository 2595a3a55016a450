"""What all sources cost at their default intervals: `python benchmarks/source_cost.py`.

For each probe (training process, sampled once a second) and each collector (agent process, at its own interval): CPU
seconds an hour, and memory that came with loading, starting and reading it. Exit status 1: over the limits, which are
0.5 % of a core and 20 MB in the training process, 1 % of a core and 100 MB in the agent. A source without its hardware
stays quiet and costs nothing: its reason is printed.

Not in these figures: what a probe does inside JAX's events, the passes of Python's garbage collector, and the memory
probe's census of live arrays, which keeps to a share of its own (0.05 %; see live_array_census.py).
"""

import os
import resource
import subprocess
import sys
import time
from typing import Any

from jaxobs.plugin.base import Probe
from jaxobs.plugin.discovery import COLLECTORS, PROBES, discover
from jaxobs.testing import FakeAgent, FakeJob

SAMPLE_SECONDS = 1.0  # the sender wakes up so often (Settings.interval)
READINGS = 40
LIMITS = {PROBES: (0.005, 20.0), COLLECTORS: (0.01, 100.0)}
WHERE = {PROBES: "training process", COLLECTORS: "agent"}


def resident_megabytes() -> float:
    """Of this process now; at its highest where /proc does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  # no Path needed
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def seconds_a_reading(read: Any) -> float:
    """CPU seconds of this process for one reading, after a first one that opens files and caches."""
    read()
    began = time.process_time()
    for _ in range(READINGS):
        time.sleep(0.002)  # so that clocks and counters have moved on
        read()
    return (time.process_time() - began) / READINGS


def measure(group: str) -> bool:
    """Print one line for each source of a group; whether all of them together keep to the limits."""
    if group == PROBES:
        import jax.numpy as jnp

        jnp.ones(8).block_until_ready()  # JAX's memory is not ours
    base = resident_megabytes()
    entries = discover(group)
    before = resident_megabytes()
    print(f"{WHERE[group]:17} {'loading':20} {before - base:61.1f} MB")
    total = 0.0
    for entry in entries:
        name, plugin = entry.name, entry.plugin
        if entry.error:
            print(f"{WHERE[group]:17} {name:20} cannot be loaded: {entry.error}")
            continue
        plugin.start(FakeJob() if group == PROBES else FakeAgent(metrics=plugin.metrics, pid=os.getpid()))
        if group == PROBES:
            read = plugin.sample if type(plugin).sample is not Probe.sample else None
        else:
            read = lambda plugin=plugin: list(plugin.collect())  # noqa: E731
        interval = SAMPLE_SECONDS if group == PROBES else float(plugin.interval)
        share = seconds_a_reading(read) / interval if read is not None else 0.0
        total += share
        after = resident_megabytes()
        reason = str(plugin.reason)
        print(
            f"{WHERE[group]:17} {name:20} every {interval:g} s {share * 3600:8.2f} CPU s/h {share:9.4%} of a core "
            f"{after - before:7.1f} MB  {reason}"
        )
        before = after
        plugin.stop()
    megabytes = before - base
    share_limit, megabytes_limit = LIMITS[group]
    kept = total <= share_limit and megabytes <= megabytes_limit
    print(
        f"{WHERE[group]:17} {'all':20} {'':9} {total * 3600:8.2f} CPU s/h {total:9.4%} of a core {megabytes:7.1f} MB  "
        f"limits {share_limit:.1%}, {megabytes_limit:g} MB: {'kept' if kept else 'EXCEEDED'}"
    )
    return kept


def main() -> int:
    """Each side in a process of its own, as in use."""
    if len(sys.argv) > 1:
        return 0 if measure(sys.argv[1]) else 1
    sides = [subprocess.run([sys.executable, __file__, group], check=False) for group in (COLLECTORS, PROBES)]
    return max(side.returncode for side in sides)


if __name__ == "__main__":
    sys.exit(main())
