"""`jaxobs compare`: reports what became slower or faster from one run to another, and why."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path

from jaxobs.cli import say, using
from jaxobs.cli.console import Parser, write_output
from jaxobs.cli.show import of_one_run, read_record, records, records_directory, why_left_out
from jaxobs.cli.terminal import look_of
from jaxobs.report import comparison
from jaxobs.report.comparison import Comparison
from jaxobs.report.notebook import comparison_page
from jaxobs.report.record import Record
from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.units import percent

SUMMARY = "compare the records of two runs: what became slower or faster, and why"

_EXIT_STATUS = (
    "Exit status: 0, or 1 where --fail-if-slower finds B slower, or 2 for input that cannot be used, which with "
    "--fail-if-slower includes records that do not tell whether B is slower."
)
SLOWER = 1


def run(arguments: list[str]) -> int:
    """Print the comparison. The exit status judges it where --fail-if-slower is given."""
    options = _options(arguments)
    before, after = _records(options.before, options.after)
    with using(f"what {before.name} and {after.name} differ in"):
        found = comparison.compare(before, after)
        as_json = json.dumps(found.to_dict(), indent=2, allow_nan=False) if options.json else ""
        shown = as_json or found.text(**look_of(sys.stdout))
        page = comparison_page(found) if options.html is not None else ""
    if options.html is not None:
        write_output(Path(options.html), page.encode(), [before.path, after.path])
    print(shown)
    allowed = options.fail_if_slower
    return 0 if allowed is None else _judged(found, allowed, options.loop)


def compare(before: str | Path | None = None, after: str | Path = "last") -> Comparison:
    """Compare two kept runs; a notebook shows it with its tables, and `print()` its text.

    They are named as for the command `jaxobs compare`: `last~2`, the beginning of a folder's name, or a path; without
    `before` it is the run before `after` of the same script. Raises InputError where one cannot be read.
    """
    return comparison.compare(*_records(before, after))


def _records(before: str | Path | None, after: str | Path) -> tuple[Record, Record]:
    newer = read_record(after)
    older = read_record(before) if before else _one_before(newer)
    if older.path.resolve() == newer.path.resolve():
        raise InputError(f"A and B are the same run, {newer.name}: name two of `jaxobs runs`")
    return older, newer


def _one_before(after: Record) -> Record:
    """The newest kept record of the same script, or run's name, that is older. Raises InputError if there is none."""
    what, older = _script(after), False
    own = {each.path.resolve() for each in of_one_run(after)}
    left_out: list[str] = []
    for record in records(records_directory(), left_out):
        if older and _script(record) == what:
            return record
        older = older or record.path.resolve() in own
    why = why_left_out(left_out)
    raise InputError(f"no earlier record of {' '.join(what)} is kept{why}: name two of `jaxobs runs`")


def _script(record: Record) -> tuple[str, str]:
    """What was run, or in a notebook the run's name; without one it is like no other."""
    process = record.part("snapshot", "process")
    if script := process.get("script"):
        return "script", repr(script)
    return "the run", repr(process.get("run") or record.name)


def _judged(found: Comparison, allowed: float, loop: str | None) -> int:
    """The exit status. Raises InputError if the records do not suffice to judge."""
    judged = [time for time in found.step_times if loop in {None, time.loop}]
    if not judged:
        raise InputError(
            f"--fail-if-slower: the two have no loop {f'`{loop}` ' if loop else ''}in common, so nothing can be said"
        )
    changes = {time.loop: time.change for time in judged if time.change and time.verdict == "slower"}
    ratios = {loop: math.expm1(change.estimate) for loop, change in changes.items()}
    slower = {loop: ratio for loop, ratio in ratios.items() if ratio > allowed}
    for name, grew in slower.items():
        say("jaxobs compare", f"`{name}` is {percent(grew)} slower: {100 * allowed:g} % are allowed")
    if slower:
        return SLOWER
    if unknown := next((time for time in judged if time.change is None), None):
        raise InputError(f"--fail-if-slower: {unknown.sentence()}")
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("compare", SUMMARY, _EXIT_STATUS)
    parser.add_argument(
        "before", metavar="A", nargs="?",
        help="the run before: as in `jaxobs show` (default: the one before B of the same script)",
    )  # fmt: skip
    parser.add_argument("after", metavar="B", nargs="?", default="last", help="the run after (default: last)")
    parser.add_argument(
        "--fail-if-slower", metavar="PERCENT", type=_share,
        help="exit status 1 if a step of B takes so much longer than one of A, such as 5%%",
    )  # fmt: skip
    parser.add_argument("--loop", metavar="NAME", help="the loop that is judged (default: all of both)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--html", metavar="FILE", help="write a self-contained page, with a flame graph")
    options = parser.options(arguments)
    if options.loop is not None and options.fail_if_slower is None:
        parser.error("--loop says which loop --fail-if-slower holds for: give that, too")
    return options


def _share(value: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", value.strip())
    if not match:
        raise argparse.ArgumentTypeError(f"{value!r}: give a percentage, such as 5%")
    return float(match[1]) / 100
