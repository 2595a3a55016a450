"""What jaxobs costs single loops: `python -m benchmarks.overhead --milliseconds 1 --cores one-free --generations 5`.

benchmarks/report/figures/training_loop.py says how it is measured.
"""

from __future__ import annotations

import argparse

from benchmarks.overhead.loops import CORES, loop
from benchmarks.overhead.worker import TARGETS


def main() -> None:
    """Print a line for each loop and phase."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--milliseconds", type=float, nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--cores", nargs="+", default=CORES, choices=CORES)
    parser.add_argument("--generations", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--without-first-minute", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for cores in options.cores:
        for milliseconds in options.milliseconds:
            for phase in loop(
                milliseconds, cores, options.generations, options.rounds, options.seed,
                first_minute=not options.without_first_minute,
            ):  # fmt: skip
                line = f"cores {phase.cores:8}  {phase.step_ms:8.3f} ms  {phase.name:12}"
                print(f"{line}  jaxobs {phase.jaxobs}  control {phase.control}", flush=True)


if __name__ == "__main__":
    main()
