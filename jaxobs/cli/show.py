"""`jaxobs show`: prints the summary of a run that is over, from its record; and finds the record that a path names."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from jaxobs.cli import UsageError, say, using
from jaxobs.cli.console import Parser
from jaxobs.cli.terminal import look_of
from jaxobs.config import SettingsError, load_settings
from jaxobs.plugin.files import open_regular
from jaxobs.report.page import page
from jaxobs.report.record import LARGEST_BYTES, Record, RecordError, decoded
from jaxobs.report.runs import LAST, directory_of, named
from jaxobs.report.summary import render
from jaxobs.report.view import View
from jaxobs.vocabulary.text import printable

SUMMARY = "print the summary of a run again, from the record that it left"

MAX_BYTES_READ = 4 * LARGEST_BYTES
"""Largest file that is read into memory, with room for one that was indented; parsed it may take fifty times as much."""

TOGETHER_SECONDS = 5.0
"""Longest time between the starts of two ranks of one job. Launchers take less, and a process needs about as long to
import JAX before it trains at all."""


def run(arguments: list[str]) -> int:
    """Print the summary in a record."""
    parser = Parser("show", SUMMARY)
    parser.add_argument(
        "record", metavar="RECORD", nargs="?", default="last",
        help="`last` (the default), `last~2` for two before it, the beginning of a record's name, its file, or a "
        "directory: then the newest run's",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the whole record as JSON")
    parser.add_argument(
        "--html", metavar="FILE", help="write the run's page as one file that needs nothing else"
    )
    options = parser.options(arguments)
    record = read_record(options.record)
    if options.json:
        print(json.dumps(record.content, indent=2, allow_nan=False))
        return 0
    with using(record.name):
        shown = render(record.snapshot, **look_of(sys.stdout))
        html = page(View(record.snapshot, live=False)) if options.html is not None else ""
    if options.html is not None:
        Path(options.html).write_text(html, encoding="utf-8")
        print(f"wrote {options.html}")
        return 0
    if record.content.get("state") == "running":
        print(f"{record.name} was written while the job ran; how it ended is not known.")
    print(shown)
    return 0


def read_record(path: str) -> Record:
    """The record that is meant: in a file, by `last` or a name, or of the newest run in a directory. Raises UsageError.

    Of a run it is that of the lowest rank. Files of a directory that cannot be used are left out, which is said in one
    line: others may keep their own there.
    """
    # `Path.exists` raises where a folder above may not be entered.
    if LAST.fullmatch(path) or not os.path.lexists(path):
        return _read(named(path, records_directory()) or _no_such(path))
    if not os.path.isdir(path):  # noqa: PTH112
        return _read(Path(path))
    try:
        files = sorted(file for file in Path(path).iterdir() if file.suffix == ".json")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    found, left_out = [], []
    for file in files:
        try:
            found.append(_read(file))
        except UsageError as error:
            left_out.append(str(error))
    while found:
        chosen = _first_rank_of_the_newest(found)
        try:
            with using(chosen.name):
                render(chosen.snapshot)
        except UsageError as error:
            left_out.append(str(error))
            found.remove(chosen)
            continue
        if left_out:
            more = f", and {len(left_out) - 1} more files" if len(left_out) > 1 else ""
            say("jaxobs", f"left out: {left_out[0]}{more}")
        return chosen
    why = f" ({left_out[0]})" if left_out else ""
    raise UsageError(
        f"{path}: no record of a run in this directory{why}; jobs leave one with JAXOBS_RUN_DIRECTORY={path}"
    )


def records_directory() -> Path:
    """Where jobs leave records with the settings of the environment. Raises UsageError where they leave none."""
    try:
        directory = directory_of(vars(load_settings()))
    except SettingsError as error:
        raise UsageError(str(error)) from None
    if directory is None:
        raise UsageError("no records are kept: JAXOBS_KEEP_RUNS is false, or no home directory is known")
    return directory


def _no_such(path: str) -> Path:
    if LAST.fullmatch(path):
        raise UsageError(f"{path}: not so many runs have left a record in {records_directory()}")
    return Path(path)


def _first_rank_of_the_newest(found: Sequence[Record]) -> Record:
    newest = max(found, key=_began)
    # Ranks of one run begin within seconds of each other; an earlier attempt of the same name began well before.
    together = [
        record for record in found
        if _process(record, "run") == _process(newest, "run") and _began(newest) - _began(record) <= TOGETHER_SECONDS
    ]  # fmt: skip
    return min(together, key=lambda record: (_rank(record), -_began(record)))


def _read(path: Path) -> Record:
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES_READ + 1)
        if len(data) > MAX_BYTES_READ:
            raise UsageError(f"{path} is too large for a record of a run")
        return decoded(data, printable(str(path)))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except RecordError as error:
        raise UsageError(str(error)) from None


def _began(record: Record) -> float:
    began = record.content.get("began")
    return float(began) if isinstance(began, int | float) else 0.0


def _process(record: Record, key: str) -> object:
    return record.part("snapshot", "process").get(key)


def _rank(record: Record) -> int:
    index = _process(record, "process_index")
    return index if isinstance(index, int) else 0
