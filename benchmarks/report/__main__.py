"""Measure what jaxobs costs beside its peers, and write docs/results/benchmarks.md: `make benchmarks-report`.

``--only step_cost,scrape`` measures these and leaves the other sections as they are; ``--print`` writes nothing and
prints the sections instead. Peers that are not installed beside jaxobs are left out, and the page says so. Exit
status 1 where a section does not show what it must.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

from benchmarks.report.machine import described
from benchmarks.report.page import page, section_text
from benchmarks.report.peers import DISTRIBUTIONS
from benchmarks.report.results import Section, keep, kept

PAGE = Path(__file__).parents[2] / "docs" / "results" / "benchmarks.md"
FIGURES = (
    "training_loop", "step_cost", "processor_time", "memory_and_exit", "start_time", "compile_cost", "scrape",
    "live_page", "snapshot_time",
)  # fmt: skip
"""Modules of benchmarks/report/figures/ whose `measure()` makes a section, in the order of the page."""


def main() -> int:
    """Measure, keep, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--only", default=",".join(FIGURES), metavar="NAMES")
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := [name for name in names if name not in FIGURES]:
        parser.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    held = True
    for name in names:
        section = measured(name)
        held = held and all(demand.held for demand in section.demands)
        if options.print:
            print(f"## {section.title}\n\n{section_text(section)}", flush=True)
        else:
            keep(name, section)
    if not options.print:
        PAGE.write_text(page([found for name in FIGURES if (found := kept(name))]), encoding="utf-8")
    return int(not held)


def measured(name: str) -> Section:
    """The section, with the versions it was measured with."""
    began, measured_with = time.monotonic(), described(DISTRIBUTIONS)
    section: Section = importlib.import_module(f"benchmarks.report.figures.{name}").measure()
    section.measured.update(measured_with)
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return section


if __name__ == "__main__":
    sys.exit(main())
