"""Fifteen training programs, unchanged, under `jaxobs run`: what it shows of each, beside the program's own truth.

    make programs [ARGS="--only keras_fit,equinox_mlp"] [ARGS="--often"] [ARGS="--unmarked"]

Each program runs three times: as it is, under `jaxobs run`, and with its loop and its step marked. Shown of a loop are
its name with steps counted and the program's own count, steps/s beside the program's own, MFU beside the one by hand or
the marked run's, and the bottleneck beside the marked run's. Exit status 1 where something is WRONG.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from benchmarks.observed import How, Run, run
from benchmarks.truths import Figure, Table, chosen, know_peaks, options_of
from tests.programs.catalogue import PROGRAMS, Program
from tests.programs.judgement import (
    judge_bottleneck,
    judge_loop,
    judge_mfu,
    judge_rate,
    judge_same,
    main_loop,
    mfu_by_hand,
    whole_mfu,
)


def examine(program: Program, *, marked: bool, keep: Path | None = None) -> list[Figure]:
    """Run a program three ways, and judge. `keep`: a folder for all that was said."""
    ways: tuple[How, ...] = (
        ("plain", "observed", "marked") if marked and program.can_be_marked else ("plain", "observed")
    )
    try:
        runs = {how: run(program.path, how=how, python=program.python) for how in ways}
    except subprocess.TimeoutExpired as hung:
        return [Figure("its end", f"none within {hung.timeout:.0f} s", "status 0")]
    if keep is not None:
        _keep(keep / program.name, runs)
    return judge(runs["plain"], runs["observed"], runs.get("marked"))


def judge(plain: Run, observed: Run, reference: Run | None) -> list[Figure]:
    """What is shown of a program."""
    truth, same = observed.truth, judge_same(plain, observed)
    if not truth:
        return [Figure("its end", f"status {observed.status}", "status 0"), same]
    documents = observed.snapshots
    found = main_loop(documents, truth)
    marked, pace = None, 1.0
    if reference is not None and reference.documents and reference.truth:
        marked = main_loop(reference.documents[0], reference.truth)
        pace = truth["steps_per_second"] / reference.truth["steps_per_second"]
    by_hand = mfu_by_hand(truth, documents[-1]) if documents else None
    return [
        judge_loop(found, truth),
        judge_rate(found, truth),
        judge_mfu(found[1]["mfu"] if found else None, whole_mfu(marked), by_hand, pace),
        judge_bottleneck(found, marked),
        same,
    ]


def _keep(folder: Path, runs: Mapping[How, Run]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for how, one in runs.items():
        (folder / f"{how}.json").write_text(json.dumps(asdict(one)))
        (folder / f"{how}.txt").write_text(f"{one.stdout}\n{one.stderr}")


def main() -> int:
    """Run what was asked for; the exit status."""
    parser = options_of(__doc__)
    parser.add_argument("--often", action="store_true", help="the few that continuous integration runs")
    parser.add_argument("--unmarked", action="store_true", help="leave the marked runs out")
    parser.add_argument("--keep", type=Path, help="a folder for outputs and snapshots")
    options = parser.parse_args()
    every = [one for one in PROGRAMS if options.only or one.often or not options.often]
    programs = chosen(options.only, ((program.name, program) for program in every))
    for python in sorted({program.python for program in programs}):
        know_peaks(python)
    table = Table()
    for program in programs:
        table.add(program.name, examine(program, marked=not options.unmarked, keep=options.keep))
    return table.status()


if __name__ == "__main__":
    sys.exit(main())
