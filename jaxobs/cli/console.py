"""What commands share: the type of their options, and progress."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from jaxobs.cli import UsageError
from jaxobs.plugin.settings import meant

MIN_SECONDS = 1.0

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
    """Progress on standard error, as a bar which is removed at the end; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    quiet = not sys.stderr.isatty()
    columns = (TextColumn(title), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda share, text: progress.update(task, completed=min(share, 1.0), description=text)
