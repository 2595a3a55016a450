"""`jaxobs show`: prints the summary of a run that is over, from its record; and finds the record that a path names."""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import sys
import webbrowser
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from jaxobs.cli import say, using
from jaxobs.cli.console import Parser, write_output
from jaxobs.cli.terminal import look_of
from jaxobs.config import load_settings
from jaxobs.plugin.files import open_regular
from jaxobs.report.page import page
from jaxobs.report.ranks import Observed, rank_rows, rank_table
from jaxobs.report.record import MAX_BYTES, Record, decoded, state_of
from jaxobs.report.runs import FOLDER_NAME, NOT_IN_NAMES, PAGE, RECORD, directory_of, kept
from jaxobs.report.summary import render
from jaxobs.report.view import View
from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.text import printable

SUMMARY = "print the summary of a run again, from the record that it left"

MAX_BYTES_READ = 4 * MAX_BYTES
"""Largest file that is read into memory, with room for one that was indented; parsed it may take fifty times as much."""

LAST = re.compile(r"last(?:~(\d{1,6}))?", re.ASCII)
"""The word for a run by how many began after it."""

TOGETHER_SECONDS = 300.0
"""Longest time between the starts of two ranks of one job: so long `jax.distributed.initialize()` waits for all of them
(its `initialization_timeout`)."""

COMPARED = ("process", "loops", "hangs")
"""Parts of a snapshot by which ranks are compared."""

DISPLAYS = {"DISPLAY", "WAYLAND_DISPLAY"}
"""Variables of which one is set where a browser would open in a window, and not in this terminal."""

ENDED = {
    "running": "its record was written while the job ran",
    "lost": "its record was written while the job ran; how it ended is not known",
    "crashed": "it was ended by an exception",
    "interrupted": "it was interrupted (Ctrl-C)",
    "killed": "it was killed, left by os._exit, or had no time to tell its end",
}


def run(arguments: list[str]) -> int:
    """Print the summary in a record."""
    parser = Parser("show", SUMMARY)
    parser.add_argument(
        "record", metavar="RUN", nargs="?",
        help="`last` (the default), `last~2` for two before it, the beginning of a run's name, its folder or record, or "
        "a directory: then the newest run's",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the whole record as JSON")
    parser.add_argument(
        "--html", metavar="FILE", nargs="?", const="",
        help="write the run's page as one file that needs nothing else (default: page.html in the run's folder, which is "
        "then opened)",
    )  # fmt: skip
    options = parser.options(arguments)
    if options.record is None and not (options.html or PAGE).endswith(".html"):  # it may be meant as the run
        raise InputError(f"{options.html}: name the run first: jaxobs show RUN --html FILE")
    record = read_record("last" if options.record is None else options.record)
    if options.json:
        print(json.dumps(record.content, indent=2, allow_nan=False))
        return 0
    kept_in = shlex.quote(str(record.path.parent.parent))
    others = f"; `jaxobs runs {kept_in}` lists the others" if record.path.name == RECORD else ""
    with using(record.name, others):
        look = look_of(sys.stdout)
        shown = render(record.snapshot, **look)
        ranks = [Observed(one.name, one.snapshot) for one in of_one_run(record)]
        table = rank_table(rank_rows(ranks), **look) if len(ranks) > 1 else ""
        html = page(View(record.snapshot, live=False)) if options.html is not None else ""
        how = ENDED.get(state_of(record))
    if options.html is not None:
        own = record.path.with_name(PAGE) if record.path.name == RECORD else record.path.with_suffix(".html")
        file = Path(options.html or own)
        write_output(file, html.encode(), [record.path])
        if not options.html and sys.stdout.isatty() and os.environ.keys() & DISPLAYS:
            webbrowser.open(file.absolute().as_uri())
        shown, table, how = f"wrote {printable(str(file))}", "", None
    beside = f"{table}\n\nrank {_rank(record)}" if table else None
    print(*filter(None, (beside, how and f"{record.name}: {how}", shown)), sep="\n")
    return 0


def of_one_run(record: Record) -> list[Record]:
    """The records of all ranks of its run, this one's among them, by rank: in folders whose names begin alike.

    Of another rank it is the one that began nearest: who starts by hand what is told no number gives each start one id.
    It has what is COMPARED alone: whole, those of a thousand ranks take gigabytes.
    """
    folder = record.path.parent
    name = FOLDER_NAME.fullmatch(folder.name) if record.path.name == RECORD else None
    run = _process(record, "run_id")
    found = list[Record]()
    if name and name["rank"] and run:
        alike = glob.escape(folder.name[: name.start("rank")])
        for path in folder.parent.glob(f"{alike}*/{RECORD}"):
            with suppress(InputError), using(str(path)):
                if path != record.path and _process(other := _read(path), "run_id") == run:
                    compared = {part: other.snapshot.get(part) for part in COMPARED}
                    rank_rows([Observed(other.name, compared)])  # one that cannot be shown is left out
                    found.append(replace(other, content={"began": _began(other), "snapshot": compared}))
    nearest_last = sorted([*found, record], key=lambda one: -abs(_began(one) - _began(record)))
    by_rank = {_rank(one): one for one in nearest_last}
    return [by_rank[rank] for rank in sorted(by_rank)]


def read_record(word: str | Path) -> Record:
    """The record that is meant: of a file, a folder, a directory of folders, or of a word. Raises InputError.

    `last~2` is the run with two newer ones; another word is a run's name, or the beginning of a folder's. Of a directory
    it is the newest run's.
    """
    word = str(word)
    # `Path.exists` raises where a folder above may not be entered.
    if match := LAST.fullmatch(word):
        few = f"{word}: not so many runs have" if match[1] else "no run has"
        return _newest(records_directory(), int(match[1] or 0), few)
    if not os.path.isdir(word):  # noqa: PTH112
        return _read(Path(word) if os.path.lexists(word) else _named(word))
    if os.path.lexists(Path(word, RECORD)):
        return _read(Path(word, RECORD))
    return _newest(Path(word), 0, "no run has")


def _newest(directory: Path, number: int, few: str) -> Record:
    """The newest record in a directory, or the one with so many newer ones; others that cannot be read are told of."""
    left_out: list[str] = []
    found = next(islice(records(directory, left_out), number, None), None)
    if found is None:
        raise InputError(f"{few} left a record in {directory}{why_left_out(left_out)}")
    if left_out:
        say("jaxobs", f"not all runs can be read{why_left_out(left_out)}")
    return found


def why_left_out(left_out: Sequence[str]) -> str:
    """In brackets, why the first record cannot be read, and how many more cannot; empty if all can."""
    more = f", and {len(left_out) - 1} more" if len(left_out) > 1 else ""
    return f" (left out: {left_out[0]}{more})" if left_out else ""


def records(directory: Path, left_out: list[str]) -> Iterator[Record]:
    """The records in a directory, the run that began last first; of ranks that ran together that of the lowest.

    They are read as they are asked for. Why one could not be read is added to `left_out`. Raises InputError where the
    directory cannot be read.
    """
    try:
        folders = kept(directory)
    except FileNotFoundError:  # no run has been kept yet
        return
    except OSError as error:
        raise InputError(f"cannot read {directory}: {error.strerror or error}") from None
    waiting = deque[tuple[_Start, Record]]()
    for folder in folders:
        try:
            record = _read(folder / RECORD)
        except InputError as error:
            left_out.append(str(error))
            continue
        start = _Start(_process(record, "run"), _rank(record), _began(record))
        # Of a thousand ranks one is kept until it is known to be the lowest: records are large.
        waiting = deque(each for each in waiting if not start.stands_for(each[0]))
        if not any(other.stands_for(start) for other, _ in waiting):
            waiting.append((start, record))
        while waiting and waiting[0][0].began - start.began > TOGETHER_SECONDS:
            yield waiting.popleft()[1]
    yield from (record for _, record in waiting)


def records_directory() -> Path:
    """Where jobs keep their runs with the settings of the environment. Raises InputError where they keep none."""
    if (directory := directory_of(vars(load_settings()))) is None:
        raise InputError("no runs are kept: JAXOBS_KEEP_RUNS is false, or no home directory is known")
    return directory


def _named(word: str) -> Path:
    """The record of the newest run of this name, else of one whose folder's name begins so; of whatever rank."""
    found, name = list[Path](), NOT_IN_NAMES.sub("-", word).lstrip("-")
    with suppress(OSError, InputError):
        found = [folder for folder in kept(records_directory()) if name and folder.name.startswith(name)]
    if not found:
        raise InputError(f"{word!r} is no file, and no kept run's name begins so: `jaxobs runs` lists them")
    whole = re.compile(re.escape(name) + r"(-attempt\d+)?(-rank\d+)?-\d{8}T\d{6}Z-\w*", re.ASCII)
    return min(found, key=lambda folder: not whole.fullmatch(folder.name)) / RECORD


class _Start(NamedTuple):
    """The name of a process's run, its rank, and when it began."""

    run: object
    rank: int
    began: float

    def stands_for(self, other: _Start) -> bool:
        """Whether it is of a lower rank than the other, and of a run of its name that began about then."""
        is_lower = self.run == other.run and self.rank < other.rank
        return is_lower and abs(self.began - other.began) <= TOGETHER_SECONDS


def _read(path: Path) -> Record:
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES_READ + 1)
        if len(data) > MAX_BYTES_READ:
            raise InputError(f"{path} is too large for a record of a run")
        whole = path.absolute()  # of `.` too the name is known
        name = printable(whole.parent.name if path.name == RECORD else str(path))
        return replace(decoded(data, name), path=whole)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def _began(record: Record) -> float:
    began = record.content.get("began")
    return float(began) if isinstance(began, int | float) else 0.0


def _process(record: Record, key: str) -> object:
    return record.part("snapshot", "process").get(key)


def _rank(record: Record) -> int:
    launched = FOLDER_NAME.fullmatch(record.path.parent.name)  # a launcher's ranks need not be JAX's
    if launched and launched["rank"]:
        return int(launched["rank"])
    index = _process(record, "process_index")
    return index if isinstance(index, int) else 0
