"""Holds, for each program of the suite, jaxobs's cost against formulas, with XLA's figures beside it.

``python -m benchmarks.accuracy`` from the repository's root; ``--only attention,loops`` takes the programs of
these files. Exit status 1 where jaxobs is off: matrix FLOPs by more than 1 %, vector FLOPs by more than 5 %, bytes by
more than 10 %, a flag that should be set and is not, or more than 1 % between jaxobs and XLA where both count the same
work.
"""

from __future__ import annotations

import sys

import jax

from benchmarks.accuracy.comparison import compare
from benchmarks.accuracy.suite import programs
from benchmarks.truths import Table, options_of


def main() -> int:
    """Print the table and the counts; 1 where any figure of jaxobs is off."""
    options = options_of(__doc__).parse_args()
    print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}; formulas: benchmarks/accuracy/*.py")
    table, right, every = Table(options.strict), 0, programs(options.only)
    for program in every:
        figures = list(compare(program))
        table.add(program.name, figures)
        right += all(one.verdict == "right" for one in figures)
    status = table.status()
    print(
        f"jaxobs is right on {right} programs of {len(every)}, in every figure that has a sharp value and every flag."
    )
    return status


if __name__ == "__main__":
    sys.exit(main())
