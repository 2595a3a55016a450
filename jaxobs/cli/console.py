"""What commands share: the type of their options, and progress."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from jaxobs.cli import UsageError, tell
from jaxobs.plugin.settings import meant

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
            self.error(f"unknown option {unknown[0]}{meant(unknown[0], self._option_string_actions, '{}')}")
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
