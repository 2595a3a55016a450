"""Holds, for each program of the suite, jaxobs's cost against formulas, with XLA's figures beside it.

``python -m benchmarks.accuracy`` from the repository's root; ``--only TEXT`` takes programs whose name has
the text; ``--peers PYTHON`` adds datarax's figures, computed by that interpreter. Exit status 1 where jaxobs is
off: matrix FLOPs by more than 1 %, vector FLOPs by more than 5 %, bytes by more than 10 %, a flag that should be
set and is not, or more than 1 % between jaxobs and XLA where both count the same work.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import jax

from benchmarks.accuracy.comparison import Compared, Others, compare
from benchmarks.accuracy.peers import DISTRIBUTION, figures_from
from benchmarks.accuracy.suite import programs
from benchmarks.truths import Table, options_of


def main() -> int:
    """Print the table and the counts; 1 where any figure of jaxobs is off."""
    parser = options_of(__doc__)
    parser.add_argument("--peers", metavar="PYTHON")
    options = parser.parse_args()
    only = options.only or ""
    print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}; formulas: benchmarks/accuracy/*.py")
    table, every = Table(options.strict), [compare(program) for program in programs(only)]
    for compared in every:
        table.add(compared.program.name, compared.figures())
    status = table.status()
    right = sum(all(one.verdict == "right" for one in compared.figures()) for compared in every)
    print(
        f"jaxobs is right on {right} programs of {len(every)}, in every figure that has a sharp value and every flag."
    )
    _count("XLA", every, {compared.program.name: compared.xla for compared in every})
    if options.peers:
        try:
            version, peers = figures_from(options.peers, only)
        except (OSError, RuntimeError) as error:
            print(f"{DISTRIBUTION}: no figures: {error}")
        else:
            _count(f"{DISTRIBUTION} {version}", every, peers)
    return status


def _count(tool: str, every: Sequence[Compared], found: Mapping[str, Others]) -> None:
    """Print on how many programs another tool is right."""
    answers = [(one.program, found.get(one.program.name, Others(error="not run"))) for one in every]
    flops, moved = (
        sum(right) for right in zip(*(tool.right(program) for program, tool in answers), strict=True)
    )
    sharp = sum(one.program.bytes is not None for one in every)
    print(f"{tool} is right on {flops} programs' FLOPs, and {moved} of the {sharp} with sharp bytes.")
    for program, one in answers:
        if one.error:
            print(f"  {tool} gave nothing for {program.name!r}: {one.error}")


if __name__ == "__main__":
    sys.exit(main())
