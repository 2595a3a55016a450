"""What jaxobs costs single loops: `python -m benchmarks.overhead --milliseconds 1 --cores one-free --seconds 180`.

benchmarks/report/figures/training_loop.py says how it is measured.
"""

from __future__ import annotations

import argparse

from benchmarks.overhead.loops import CORES, loop
from benchmarks.overhead.model import TARGETS


def main() -> None:
    """Print a line for each loop and phase."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--milliseconds", type=float, nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--cores", nargs="+", default=CORES, choices=CORES)
    parser.add_argument("--seconds", type=float, default=120.0, help="after the first minute")
    options = parser.parse_args()
    for cores in options.cores:
        for milliseconds in options.milliseconds:
            for phase in loop(milliseconds, cores, options.seconds):
                line = (
                    f"cores {phase.cores:8}  {phase.step_ms:8.3f} ms  {phase.name:12}  jaxobs {phase.jaxobs}"
                )
                means = f"mean {phase.jaxobs_mean}  control {phase.control_mean}"
                print(
                    f"{line}  control {phase.control}  {means}  threads {phase.threads:.2%} of a core",
                    flush=True,
                )


if __name__ == "__main__":
    main()
