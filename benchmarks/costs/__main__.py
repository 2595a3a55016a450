"""Measure what jaxobs costs beside its peers, and print it: `make benchmarks-report`, in about an hour and a half.

``--only step_cost,scrape`` measures these: `make benchmark NAME=step_cost`. Each is a module of this folder, whose
docstring says how it is measured. Peers that are not installed beside jaxobs are left out: see the versions. Exit status
1 where a figure is not what it must be.
"""

from __future__ import annotations

import importlib
import sys

from benchmarks.costs.machine import described
from benchmarks.costs.peers import DISTRIBUTIONS
from benchmarks.truths import Rows, Table, chosen, options_of

SECTIONS = (
    "training_loop", "step_cost", "processor_time", "memory_and_exit", "start_time", "compile_cost", "scrape",
    "agent_cost", "decoding", "exit_seconds",
)  # fmt: skip
"""Modules whose `measure()` gives figures; the last three are on no page."""


def main() -> int:
    """Measure and print; the exit status."""
    status = 0
    for name in chosen(options_of(__doc__).parse_args().only, ((name, name) for name in SECTIONS)):
        facts, table = described(DISTRIBUTIONS), Table()
        rows: Rows = importlib.import_module(f"benchmarks.costs.{name}").measure()
        for title, figures in rows:
            table.add(title, figures)
        print(f"## {name}\n", *(f"- {fact}: {value}" for fact, value in facts.items()), "", sep="\n")
        status |= table.status()
    return status


if __name__ == "__main__":
    sys.exit(main())
