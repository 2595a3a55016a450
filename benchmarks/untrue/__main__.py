"""Programs of which false figures were once shown, or none: each figure with the truth beside it.

    make untrue [ARGS="--only one_call,large_output"]

A figure is right within the share that the case allows, absent, or WRONG. Exit status 1 where one is WRONG; with --strict
also where one is absent.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.observed.runs import run
from benchmarks.observed.truths import truth_of
from benchmarks.untrue.cases import CASES, PROGRAMS, Figure
from jaxobs.report.text_table import TextTable, to_text

COLUMNS = ("program", "figure", "truth", "shown", "")


def main() -> int:
    """Run what was asked for; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="names of files, separated by commas")
    parser.add_argument("--strict", action="store_true", help="fail where something is absent, too")
    options = parser.parse_args()
    from jaxobs.cli.demonstration.peaks import ensure_peaks
    from jaxobs.config import load_settings

    ensure_peaks(load_settings())  # without peaks of this machine there is no efficiency
    only = options.only.split(",") if options.only else {case.program for case in CASES}
    table = TextTable(COLUMNS, left=COLUMNS)
    figures: list[Figure] = []
    for case in CASES:
        if case.program not in only:
            continue
        ended = run(
            PROGRAMS / f"{case.program}.py",
            *case.arguments,
            how=case.how,
            terminate_after=case.terminate_after,
        )
        truth = truth_of(ended.stdout)
        if truth is None:
            found = [Figure("its end", "status 0", f"status {ended.status}: {ended.stderr[-300:]}", "WRONG")]
        else:
            found = list(case.figures(ended, truth))
        for figure in found:
            table.add(case.name, *figure)
            print(" | ".join((case.name, *figure)), file=sys.stderr, flush=True)
        figures += found
    print(to_text([table], width=160))
    verdicts = [figure.verdict for figure in figures]
    return int("WRONG" in verdicts or (options.strict and "absent" in verdicts))


if __name__ == "__main__":
    sys.exit(main())
