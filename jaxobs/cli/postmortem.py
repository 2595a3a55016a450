"""`jaxobs postmortem`: tells what happened before a run ended, over all its ranks, in the order of time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from jaxobs.cli import say, using
from jaxobs.cli.console import Parser, write_output
from jaxobs.cli.show import of_one_run, read_record, records_directory
from jaxobs.cli.terminal import look_of
from jaxobs.report.postmortem import (
    BEFORE,
    RECORDER,
    Flight,
    Start,
    as_data,
    clocks_ahead,
    read_flight,
    story,
    story_page,
)
from jaxobs.report.text_table import to_text
from jaxobs.vocabulary import InputError

CLOCKS_APART: Final = 600.0
"""Seconds by which the clocks of two hosts may differ."""

SUMMARY = "tell what happened before a run ended, over all its ranks"


def run(arguments: list[str]) -> int:
    """Print the story of the newest run in the given directories, or of that in the folders given."""
    parser = Parser("postmortem", SUMMARY)
    parser.add_argument(
        "folders", metavar="PATH", nargs="*", type=Path,
        help="folders of ranks or recorders in them, a run as in `jaxobs show`, or a directory, of which the newest run"
        " is shown (default: JAXOBS_RUN_DIRECTORY, else the user's state directory)",
    )  # fmt: skip
    first = "print a JSON list instead, an object for each rank, that which stopped first at its head"
    parser.add_argument("--json", action="store_true", help=first)
    parser.add_argument("--html", metavar="FILE", help="write one self-contained page, too")
    options = parser.options(arguments)
    directories = options.folders or [records_directory()]
    given = {directory: _folders(directory) for directory in directories}
    folders = {each for found in given.values() for each in found}
    with using("a recorder"):
        shown_of = _flights(folders)
        flights = list(shown_of.values())
        if not flights:
            raise InputError(f"no run has left a readable {RECORDER} in {', '.join(map(str, directories))}")
        plain = json.dumps(as_data(flights)) if options.json else ""
        shown = plain or to_text(story(flights), **look_of(sys.stdout))
        page = story_page(flights) if options.html is not None else ""
    for directory in (each for each, found in given.items() if shown_of.keys().isdisjoint(found)):
        say(
            "jaxobs postmortem",
            f"{directory} is left out: it has no recorder of the newest run, which is shown",
        )
    if options.html is not None:
        files = (folder / name for folder in folders for name in (RECORDER, BEFORE))
        write_output(Path(options.html), page.encode(), filter(Path.exists, files))
    print(shown)
    return 0


def _flights(folders: Iterable[Path]) -> dict[Path, Flight]:
    """The flights of the run whose recorder was written last, on one clock, by folder.

    Of a rank it is the newest: who starts by hand what is told no number gives each start the same id.
    """
    found: dict[Path, Flight] = {}
    newest, ranks = None, set[str]()
    for path in sorted(folders, key=_written, reverse=True):
        flight = _read(path, newest.start if newest else None)
        if flight is None or ("jax.process_index" in flight.who and flight.rank in ranks):
            continue
        newest = newest or flight
        if flight.last["at"] + CLOCKS_APART >= (newest.began or 0.0):
            found[path] = flight
            ranks.add(flight.rank)
    paths = sorted(found)
    ahead = clocks_ahead([found[path] for path in paths]) if paths else []
    for path, seconds in zip(paths, ahead, strict=True):
        if seconds:
            found[path] = _read(path, None, seconds) or found[path]
    return {path: found[path] for path in paths}


def _written(folder: Path) -> float:
    """When a folder's recorder was last written to, in Unix seconds; 0 where there is none."""
    path = folder / RECORDER
    return path.stat().st_mtime if path.is_file() else 0.0


def _read(path: Path, start: Start | None, ahead: float = 0.0) -> Flight | None:
    try:
        return read_flight(path, start, ahead)
    except OSError as error:
        say("jaxobs postmortem", f"{path} is left out: {error.strerror}")
        return None


def _folders(directory: Path) -> list[Path]:
    if directory.name in (RECORDER, BEFORE):
        directory = directory.parent
    if not os.path.lexists(directory):  # then it names a run
        return [one.path.parent for one in of_one_run(read_record(directory))]
    if (directory / RECORDER).is_file():
        return [directory]
    return [path.parent for path in directory.glob(f"*/{RECORDER}")]
