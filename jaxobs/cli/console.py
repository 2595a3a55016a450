"""What commands share: the type of their options, the width and style of the terminal, and progress."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, NoReturn, TypedDict

from jaxobs.cli import UsageError, suggestion, tell
from jaxobs.report.text_table import PLAIN_WIDTH

MIN_SECONDS = 1.0

LINE_SECONDS = 5.0
"""Seconds between two lines of progress where there is no terminal, so that a log of 30 s stays readable."""

Bar = Callable[[float, str], None]
"""Shows the share that is done, 0 to 1, and a text."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises UsageError where argparse would end the process."""

    def __init__(self, command: str, description: str | None, epilog: str | None = None) -> None:
        super().__init__(prog=f"jaxobs {command}", description=description, epilog=epilog)

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError of one line that points to the help."""
        raise UsageError(f"{message}; `{self.prog} --help` tells more")

    def options(self, arguments: list[str]) -> argparse.Namespace:
        """Parse the command's options and arguments, which may be in any order."""
        options, unknown = self.parse_known_intermixed_args(arguments)
        if unknown and unknown[0].startswith("-"):
            self.error(f"unknown option {unknown[0]}{suggestion(unknown[0], [*self._option_string_actions])}")
        if unknown:
            self.error(f"unknown argument {unknown[0]!r}")
        return options


def seconds_up_to(most: float) -> Callable[[str], float]:
    """The type of an option that is a number of seconds from one to `most`."""

    def seconds(text: str) -> float:
        value = float(text)
        if not MIN_SECONDS <= value <= most:
            raise argparse.ArgumentTypeError(f"give a number from {MIN_SECONDS:g} to {most:g}")
        return value

    return seconds


class Look(TypedDict):
    """What a text is written for: so many columns, and whether with styles."""

    width: int
    bold: bool


def look_of(stream: IO[str] | None) -> Look:
    """The width of a stream's terminal, and whether it shows styles."""
    return {"width": terminal_width(stream), "bold": is_styled(stream)}


def terminal_width(stream: IO[str] | None) -> int:
    """The columns of a stream's terminal, at least 60; PLAIN_WIDTH if the stream is no terminal, or closed."""
    try:
        return PLAIN_WIDTH if stream is None else max(60, os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        return PLAIN_WIDTH


def is_styled(stream: IO[str] | None) -> bool:
    """Whether to write bold and colour: to a capable terminal, unless `NO_COLOR` is set (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


@contextmanager
def bar(title: str) -> Iterator[Bar]:
    """Progress on standard error: a bar on a terminal, which is removed at the end; lines elsewhere, which stay."""
    if not sys.stderr.isatty():
        following = time.monotonic() + LINE_SECONDS

        def line(share: float, text: str) -> None:
            nonlocal following
            if time.monotonic() >= following:
                following = time.monotonic() + LINE_SECONDS
                tell(f"{title} {min(share, 1.0):4.0%}  {text}")

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(title), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda share, text: progress.update(task, completed=min(share, 1.0), description=text)
