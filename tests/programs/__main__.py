"""Fifteen training programs, unchanged, under `jaxobs run`: what it shows of each, beside the program's own truth.

    make programs [ARGS="--only keras_fit,equinox_mlp"] [ARGS="--often"] [ARGS="--unmarked"]

Each program runs three times: as it is, under `jaxobs run`, and with its loop and its step marked. Shown of a loop are
its name with steps counted and the program's own count, steps/s beside the program's own, MFU beside the marked run's and
beside the one by hand, and the bottleneck beside the marked run's. Exit status 1 where something is WRONG; with --strict
also where something is absent that could be known.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.observed.runs import Run, run
from benchmarks.observed.truths import truth_of
from jaxobs.report.text_table import TextTable, to_text
from tests.programs.catalogue import PROGRAMS, Program
from tests.programs.judgement import (
    Cell,
    Row,
    Words,
    judge_bottleneck,
    judge_loop,
    judge_mfu,
    judge_rate,
    judge_same,
    main_loop,
    mfu_by_hand,
)

COLUMNS = (
    "program", "loop (steps of own)", "steps/s / own", "MFU / marked / by hand", "bottleneck / marked", "as without",
)  # fmt: skip
MARKS = {"right": "", "unsure": " ?", "absent": " –", "WRONG": " WRONG"}
WIDTH = 200


def examine(program: Program, *, marked: bool, keep: Path | None = None) -> Row:
    """Run a program three ways, and judge. `keep`: a folder for all that was said."""
    plain = run(program.path, how="plain", python=program.python)
    observed = run(program.path, how="observed", python=program.python)
    reference = (
        run(program.path, how="marked", python=program.python) if marked and program.can_be_marked else None
    )
    if keep is not None:
        _keep(keep / program.name, {"plain": plain, "observed": observed, "marked": reference})
    return judge(program, plain, observed, reference)


def judge(program: Program, plain: Run, observed: Run, reference: Run | None) -> Row:
    """One row of the table."""
    same = judge_same(
        Words(plain.status, plain.stdout, plain.stderr),
        Words(observed.status, observed.stdout, observed.own_stderr),
    )
    truth = truth_of(observed.stdout)
    if truth is None:
        why = Cell(f"ended with status {observed.status}", "WRONG")
        return Row(program.name, why, why, why, why, same)
    documents = observed.documents[0] if observed.documents else []
    found = main_loop(documents, truth)
    marked, pace = None, 1.0
    if reference is not None and reference.documents and (own := truth_of(reference.stdout)) is not None:
        marked = main_loop(reference.documents[0], own)
        pace = truth["steps_per_second"] / own["steps_per_second"]
    by_hand = mfu_by_hand(truth, documents[-1]) if documents else None
    return Row(
        program.name,
        judge_loop(found, truth),
        judge_rate(found, truth),
        judge_mfu(found[1]["mfu"] if found else None, marked[1]["mfu"] if marked else None, by_hand, pace),
        judge_bottleneck(found, marked),
        same,
    )


def _keep(folder: Path, runs: dict[str, Run | None]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for how, one in runs.items():
        if one is not None:
            (folder / f"{how}.json").write_text(json.dumps(asdict(one)))
            (folder / f"{how}.txt").write_text(f"{one.stdout}\n{one.stderr}")


def chosen(only: str | None, often: bool) -> list[Program]:
    """The programs asked for. Raises SystemExit for a name that is none."""
    names = only.split(",") if only else [program.name for program in PROGRAMS if program.often or not often]
    known = {program.name: program for program in PROGRAMS}
    if unknown := set(names) - set(known):
        raise SystemExit(f"no program {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return [known[name] for name in names]


def main() -> int:
    """Run what was asked for; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--often", action="store_true", help="the few that continuous integration runs")
    parser.add_argument("--unmarked", action="store_true", help="leave the marked runs out")
    parser.add_argument("--strict", action="store_true", help="fail where something is absent, too")
    parser.add_argument("--keep", type=Path, help="a folder for outputs and snapshots")
    options = parser.parse_args()
    from jaxobs.cli.demonstration.peaks import ensure_peaks
    from jaxobs.config import load_settings

    ensure_peaks(load_settings())  # without peaks of this machine there is no MFU
    table = TextTable(COLUMNS, left=COLUMNS)
    rows = []
    for program in chosen(options.only, options.often):
        try:
            row = examine(program, marked=not options.unmarked, keep=options.keep)
        except subprocess.TimeoutExpired as hung:
            why = Cell(f"no end within {hung.timeout:.0f} s", "WRONG")
            row = Row(program.name, why, why, why, why, why)
        rows.append(row)
        cells = [cell.text + MARKS[cell.verdict] for cell in row.cells]
        table.add(row.name, *cells)
        print(" | ".join([row.name, *cells]), file=sys.stderr, flush=True)
    print(to_text([table], width=WIDTH))
    print("–: absent; ?: nothing sure to compare with")
    verdicts = [cell.verdict for row in rows for cell in row.cells]
    return int("WRONG" in verdicts or (options.strict and "absent" in verdicts))


if __name__ == "__main__":
    sys.exit(main())
