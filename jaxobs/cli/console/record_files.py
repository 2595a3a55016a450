"""Finds and reads the record of a run that a path of the command line names."""

from __future__ import annotations

from pathlib import Path

from jaxobs.cli import UsageError
from jaxobs.plugin.files import open_regular
from jaxobs.report.record import LARGEST_BYTES, Record, RecordError, decoded

LARGEST_READ = 64 * LARGEST_BYTES
"""Largest file that is read into memory; a larger one is no record."""

TOGETHER_SECONDS = 5.0
"""Longest time between the starts of two ranks of one job. Launchers take less, and a process needs about as long to
import JAX before it trains at all."""


def read_record(path: str) -> Record:
    """The record in a file, or that of the lowest rank of the newest run in a directory. Raises UsageError."""
    given = Path(path)
    if not given.is_dir():
        return _read(given)
    found = []
    for file in sorted(given.glob("*.json")):
        try:
            found.append(_read(file))
        except UsageError:
            continue  # others may keep their own files there
    if not found:
        raise UsageError(
            f"{path}: no record of a run in this directory; jobs leave one with JAXOBS_RUN_DIRECTORY={path}"
        )
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
        return decoded(data, str(path))
    except RecordError as error:
        raise UsageError(str(error)) from None


def _began(record: Record) -> float:
    began = record.content.get("began")
    return float(began) if isinstance(began, int | float) else 0.0


def _run(record: Record) -> object:
    return record.part("snapshot", "process").get("run")


def _rank(record: Record) -> int:
    return int(record.part("snapshot", "process").get("process_index") or 0)
