"""`jaxobs runs`: lists the runs that are kept, the newest first."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

from jaxobs.cli import using
from jaxobs.cli.console import Parser
from jaxobs.cli.show import records, records_directory, why_left_out
from jaxobs.cli.terminal import look_of
from jaxobs.model.snapshot import longest_loops
from jaxobs.report.record import Record, state_of
from jaxobs.report.sentence import plain, sentence
from jaxobs.report.text_table import TextTable, to_text
from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.units import count, duration, or_absent

SUMMARY = "list the runs that are kept, the newest first"

MAX_NAME = 40
"""Most letters of a run's name that are shown."""


def run(arguments: list[str]) -> int:
    """Print one row a run. Records that cannot be read are counted in the caption."""
    parser = Parser("runs", SUMMARY)
    parser.add_argument(
        "directory", metavar="DIRECTORY", nargs="?", type=Path,
        help="where runs are kept (default: JAXOBS_RUN_DIRECTORY, else the user's state directory)",
    )  # fmt: skip
    directory = parser.options(arguments).directory or records_directory()
    columns = ("", "began", "run", "for", "state", "how it went")
    table = TextTable(columns, left=("began", "run", "state", "how it went"))
    left_out: list[str] = []
    for number, record in enumerate(records(directory, left_out)):
        try:
            with using(record.name):
                table.add(f"last~{number}" if number else "last", *_cells(record))
        except InputError as error:
            left_out.append(str(error))
    if not table.rows:
        raise InputError(f"no run that can be read is kept in {directory}{why_left_out(left_out)}")
    broken = f"; {count(len(left_out), 'record')} there cannot be read" if left_out else ""
    table.caption = f"{directory}{broken}"
    print(to_text([table], **look_of(sys.stdout)))
    return 0


def _cells(record: Record) -> tuple[str, ...]:
    process, loops = record.part("snapshot", "process"), longest_loops(record.snapshot)
    seconds = process.get("seconds")
    if seconds is not None and seconds < 0:
        raise ValueError("a negative time")
    began, state = datetime.fromtimestamp(float(record.content["began"])).astimezone(), state_of(record)
    nothing = f"no loop was found{' yet' * (state == 'running')}"
    return (
        f"{began:%Y-%m-%d %H:%M}",
        str(process.get("run") or "")[:MAX_NAME],
        or_absent(seconds, duration),
        state,
        plain(sentence(record.snapshot, loops[0])) if loops else nothing,
    )
