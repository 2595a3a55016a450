"""Finds and reads the record of a run that a path of the command line names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from jaxobs.cli import UsageError, say, using
from jaxobs.plugin.files import open_regular
from jaxobs.report.record import LARGEST_BYTES, Record, RecordError, decoded
from jaxobs.report.summary import render
from jaxobs.vocabulary.text import printable

LARGEST_READ = 4 * LARGEST_BYTES
"""Largest file that is read into memory, with room for one that was indented; parsed it may take fifty times as much."""

TOGETHER_SECONDS = 5.0
"""Longest time between the starts of two ranks of one job. Launchers take less, and a process needs about as long to
import JAX before it trains at all."""


def read_record(path: str) -> Record:
    """The record in a file, or that of the lowest rank of the newest run in a directory. Raises UsageError.

    Files of a directory that cannot be used are left out, which is said in one line: others may keep their own there.
    """
    if not os.path.isdir(path):  # noqa: PTH112  # Path's raises where a folder above may not be entered
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


def _first_rank_of_the_newest(found: Sequence[Record]) -> Record:
    newest = max(found, key=_began)
    run = [record for record in found if _run(record) == _run(newest)]
    # Ranks of one run begin within seconds of each other; an earlier attempt of the same name began well before.
    together = [record for record in run if _began(newest) - _began(record) <= TOGETHER_SECONDS]
    return min(together, key=lambda record: (_rank(record), -_began(record)))


def _read(path: Path) -> Record:
    try:
        with open_regular(path) as file:
            data = file.read(LARGEST_READ + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > LARGEST_READ:
        raise UsageError(f"{path} is too large for a record of a run")
    try:
        return decoded(data, printable(str(path)))
    except RecordError as error:
        raise UsageError(str(error)) from None


def _began(record: Record) -> float:
    began = record.content.get("began")
    return float(began) if isinstance(began, int | float) else 0.0


def _run(record: Record) -> object:
    return record.part("snapshot", "process").get("run")


def _rank(record: Record) -> int:
    index = record.part("snapshot", "process").get("process_index")
    return index if isinstance(index, int) else 0
