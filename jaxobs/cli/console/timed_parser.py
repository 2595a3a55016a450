"""The options of commands that take a number of seconds: wrong ones are answered in one line, as everywhere."""

from __future__ import annotations

import argparse
from typing import NoReturn

from jaxobs.cli import UsageError

LEAST_SECONDS = 1.0


class TimedParser(argparse.ArgumentParser):
    """Has `--seconds`, which must be from one to `most`. Raises UsageError where argparse would end the process."""

    def __init__(
        self, command: str, description: str | None, default: float, help_text: str, most: float
    ) -> None:
        super().__init__(prog=f"jaxobs {command}", description=description)
        self._most = most
        self.add_argument(
            "--seconds", type=float, default=default, help=f"{help_text} (default: %(default)s)"
        )

    def error(self, message: str) -> NoReturn:
        """One line, with where to read more."""
        raise UsageError(f"{message}; `{self.prog} --help` tells more")

    def options(self, arguments: list[str]) -> argparse.Namespace:
        """What the command was given."""
        options = self.parse_args(arguments)
        if not LEAST_SECONDS <= options.seconds <= self._most:
            raise UsageError(
                f"--seconds {options.seconds:g}: give a number from {LEAST_SECONDS:g} to {self._most:g}"
            )
        return options
