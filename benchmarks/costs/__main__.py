"""Measure what jaxobs costs beside its peers, and write docs/results/benchmarks.md: `make benchmarks-report`.

``--only step_cost,scrape`` measures these and leaves the other sections as they are; ``--print`` writes nothing and
prints the sections instead: `make benchmark NAME=step_cost`, also of those that are on no page. Peers that are not
installed beside jaxobs are left out, and the page says so. Exit status 1 where a section does not show what it must.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.costs.machine import described
from benchmarks.costs.peers import DISTRIBUTIONS
from benchmarks.costs.sections import Section, put_into
from benchmarks.truths import chosen, options_of

PAGE = Path(__file__).parents[2] / "docs" / "results" / "benchmarks.md"
FIGURES = (
    "training_loop", "step_cost", "processor_time", "memory_and_exit", "start_time", "compile_cost", "scrape",
)  # fmt: skip
"""Modules of benchmarks/costs/ whose `measure()` makes a section, in the order of the page."""
PRINTED = ("agent_cost", "decoding", "exit_seconds")
"""Others, that are on no page."""


def main() -> int:
    """Measure and write."""
    parser = options_of(__doc__)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    known = (*FIGURES, *(PRINTED if options.print else ()))
    held = True
    for name in chosen(options.only or ",".join(FIGURES), ((name, name) for name in known)):
        facts = described(DISTRIBUTIONS)
        section: Section = importlib.import_module(f"benchmarks.costs.{name}").measure()
        held = held and all(section.demands.values())
        text = section.text(facts)
        print(text, flush=True)
        if not options.print:
            PAGE.write_text(put_into(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
