"""Measure what jaxobs costs beside its peers, and write docs/results/benchmarks.md: `make benchmarks-report`.

``--only step_cost,scrape`` measures these and leaves the other sections as they are; ``--print`` writes nothing and
prints the sections instead: `make benchmark NAME=step_cost`, also of those that are on no page. Peers that are not
installed beside jaxobs are left out, and the page says so. Exit status 1 where a section does not show what it must.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

from benchmarks.costs.machine import described
from benchmarks.costs.peers import DISTRIBUTIONS
from benchmarks.costs.sections import Section, keep, kept, page, section_text
from benchmarks.truths import chosen

PAGE = Path(__file__).parents[2] / "docs" / "results" / "benchmarks.md"
FIGURES = (
    "training_loop", "step_cost", "processor_time", "memory_and_exit", "start_time", "compile_cost", "scrape",
)  # fmt: skip
"""Modules of benchmarks/costs/ whose `measure()` makes a section, in the order of the page."""
PRINTED = ("agent_cost", "decoding", "exit_seconds", "live_array_census", "live_view")
"""Others, that are on no page."""


def main() -> int:
    """Measure, keep, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description=__doc__)
    parser.add_argument("--only", default=",".join(FIGURES), metavar="NAMES")
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    known = (*FIGURES, *(PRINTED if options.print else ()))
    held = True
    for name in chosen(options.only, ((name, name) for name in known)):
        began, measured_with = time.monotonic(), described(DISTRIBUTIONS)
        section: Section = importlib.import_module(f"benchmarks.costs.{name}").measure()
        section.measured.update(measured_with)
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        held = held and all(demand.held for demand in section.demands)
        if options.print:
            print(f"## {section.title}\n\n{section_text(section)}", flush=True)
        else:
            keep(name, section)
    if not options.print:
        PAGE.write_text(page([found for name in FIGURES if (found := kept(name))]), encoding="utf-8")
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
