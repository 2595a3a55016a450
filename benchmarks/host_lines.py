"""Whether the sampler of the main thread tells the truth, and what it costs.

    python -m benchmarks.host_lines [--seconds 180] [--python 15] [--sleep 20] [--numpy 10]

A loop spends known times (in milliseconds) in three lines: pure Python, a sleep, and numpy without the interpreter lock.
Python that runs for less than the interpreter's switch interval, 5 ms, is told at the call that follows it. Printed are
their shares by the loop's own clock and as jaxobs saw them, and what share of a core the sampling thread took. At three
samples a second a share is off by three points (a standard deviation) after a minute, by less than two after three. Exit
status 1 where a share is off by more than five points, or the sampler took 0.1 % or more.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy

import jaxobs

TOLERANCE = 0.05
MOST_OF_A_CORE = 0.001
MATRIX = numpy.random.default_rng(0).standard_normal((300, 300))


def pure_python(seconds: float) -> None:
    """Python that never lets go of the interpreter lock by itself."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def sleeping(seconds: float) -> None:
    """A call that blocks."""
    time.sleep(seconds)


def native(seconds: float) -> None:
    """Products of some milliseconds' tenths, each without the interpreter lock."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        numpy.matmul(MATRIX, MATRIX)


Part = Callable[[float], None]


def measured(parts: dict[Part, float], seconds: float) -> dict[str, float]:
    """Run the parts in turn; their seconds by the loop's own clock."""
    spent = dict.fromkeys((part.__name__ for part in parts), 0.0)
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        for part, length in parts.items():
            began = time.perf_counter()
            part(length)
            spent[part.__name__] += time.perf_counter() - began
    return spent


def main() -> int:
    """Print the table; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=180.0)
    for name, length in (("python", 15.0), ("sleep", 20.0), ("numpy", 10.0)):
        parser.add_argument(f"--{name}", type=float, default=length)
    options = parser.parse_args()
    parts: dict[Part, float] = {
        pure_python: options.python / 1e3,
        sleeping: options.sleep / 1e3,
        native: options.numpy / 1e3,
    }
    with jaxobs.instrument(prometheus=False) as observer:
        import jax

        jax.jit(lambda x: x + 1)(1.0)  # a job without a backend is not observed
        time.sleep(2.0)
        before = observer.snapshot(timeout=5.0).to_dict()
        sampler = observer._side.host_lines  # noqa: SLF001  # its own processor time
        assert sampler is not None
        used = sampler.cpu_seconds
        spent = measured(parts, options.seconds)
        used = sampler.cpu_seconds - used
        time.sleep(1.5)
        after = observer.snapshot(timeout=5.0).to_dict()
    seen = {name: seconds_in(after, name) - seconds_in(before, name) for name in spent}
    print(f"{'line':15}{'true':>8}{'seen':>8}")
    for name, amount in spent.items():
        true, found = amount / sum(spent.values()), seen[name] / sum(spent.values())
        print(f"{name:15}{true:8.1%}{found:8.1%}")
    worst = max(abs(seen[name] - spent[name]) for name in spent) / sum(spent.values())
    samples = after["process"]["host_samples"] - before["process"]["host_samples"]
    share = used / options.seconds
    print(
        f"off by at most {worst:.1%}; {samples / options.seconds:.1f} samples a second; {share:.3%} of a core"
    )
    return int(worst > TOLERANCE or share >= MOST_OF_A_CORE)


def seconds_in(document: dict[str, object], function: str) -> float:
    """Sampled seconds in the lines of a function."""
    process = document["process"]
    assert isinstance(process, dict)
    rows = process["host_lines"] or []
    return float(sum(row["seconds"] for row in rows if row["line"].endswith(f" {function}")))


if __name__ == "__main__":
    sys.exit(main())
