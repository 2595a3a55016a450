"""Parses the options of commands, and reports wrong ones in one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from jaxobs.cli import UsageError, suggestion

LEAST_SECONDS = 1.0


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
        if not LEAST_SECONDS <= value <= most:
            raise argparse.ArgumentTypeError(f"give a number from {LEAST_SECONDS:g} to {most:g}")
        return value

    return seconds
