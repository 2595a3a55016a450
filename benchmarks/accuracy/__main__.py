"""Prints, for each program of the suite, its analytic cost beside jaxobs's and XLA's, and the ratio of each.

``python -m benchmarks.accuracy`` from the repository's root; ``--only TEXT`` takes programs whose name has
the text; ``--peers PYTHON`` adds datarax's figures, computed by that interpreter. Exit status 1 where jaxobs is
off: matrix FLOPs by more than 1 %, vector FLOPs by more than 5 %, bytes by more than 10 %, a flag that should be
set and is not, or more than 1 % between jaxobs and XLA where both count the same work.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

# isort: off
from benchmarks.accuracy import host_devices  # noqa: F401 before JAX
# isort: on

import jax

from benchmarks.accuracy.comparison import MATRIX, Compared, compare
from benchmarks.accuracy.peers import DISTRIBUTION, figures_from
from benchmarks.accuracy.suite import programs
from benchmarks.accuracy.table import PeerFigures, print_header, print_row


def main() -> int:
    """Print the table and the counts; 1 where any figure of jaxobs is off."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--peers", metavar="PYTHON")
    options = parser.parse_args()
    peers, version, refused = figures_from(options.peers, options.only) if options.peers else (None, "", "")
    print(
        f"JAX {jax.__version__} on {jax.devices()[0].device_kind}; formulas and sources: benchmarks/accuracy/*.py"
    )
    print("Each tool's figure is followed by its ratio to the analytic value; — where no formula is sharp.\n")
    print_header(DISTRIBUTION if peers is not None else None)
    every = []
    for program in programs(options.only):
        compared = compare(program)
        print_row(compared, peers)
        every.append(compared)
    right = sum(not compared.faults for compared in every)
    print(f"\n{len(every)} programs.")
    sharp_bytes = sum(compared.program.bytes is not None for compared in every)
    _print_count("jaxobs", right, "programs, in every figure that has a sharp value and every flag")
    _print_count(
        "XLA",
        sum(compared.flops_right(compared.xla_flops) for compared in every),
        f"programs' FLOPs, and {sum(compared.bytes_right(compared.xla_bytes) for compared in every)} of the "
        f"{sharp_bytes} with sharp bytes",
    )
    if peers is not None:
        _print_peers(peers, every, sharp_bytes, version)
    elif refused:
        print(f"{DISTRIBUTION}: no figures: {refused}")
    return int(right < len(every) or _disagreement(every) > MATRIX)


def _print_count(tool: str, right: int, of_what: str) -> None:
    print(f"{tool} is right on {right} {of_what}.")


def _print_peers(
    peers: Mapping[str, PeerFigures], every: list[Compared], sharp_bytes: int, version: str
) -> None:
    pairs = [
        (compared, peers.get(compared.program.name, PeerFigures(None, None, "not run"))) for compared in every
    ]
    flops = sum(compared.flops_right(peer.flops) for compared, peer in pairs)
    moved = sum(compared.bytes_right(peer.bytes) for compared, peer in pairs)
    _print_count(
        f"{DISTRIBUTION} {version}",
        flops,
        f"programs' FLOPs, and {moved} of the {sharp_bytes} with sharp bytes",
    )
    for compared, peer in pairs:
        if peer.error:
            print(f"  {DISTRIBUTION} gave nothing for {compared.program.name!r}: {peer.error}")


def _disagreement(every: list[Compared]) -> float:
    """The largest difference between jaxobs and XLA where they count the same work; also printed."""
    found = [compared.xla_difference for compared in every if compared.xla_difference is not None]
    if found:
        print(f"On the {len(found)} modules of real products and convolutions alone, without a loop, jaxobs and XLA "
              f"differ by at most {max(found):.2%}.")  # fmt: skip
    return max(found, default=0.0)


if __name__ == "__main__":
    sys.exit(main())
