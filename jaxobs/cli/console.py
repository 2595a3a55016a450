"""What commands share: the type of their options, and what they ask a process of its own."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from jaxobs.cli.terminal import look_of
from jaxobs.plugin.settings import meant
from jaxobs.report.text_table import TextTable, to_text
from jaxobs.vocabulary import InputError

MIN_SECONDS = 1.0


class Parser(argparse.ArgumentParser):
    """An argument parser that raises InputError where argparse would end the process."""

    def __init__(self, command: str, description: str | None, epilog: str | None = None) -> None:
        super().__init__(prog=f"jaxobs {command}", description=description, epilog=epilog)

    def error(self, message: str) -> NoReturn:
        """Raise a InputError of one line that points to the help."""
        raise InputError(f"{message}; `{self.prog} --help` tells more")

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


def print_found(found: Any, parts: Iterable[TextTable | str], *, as_json: bool) -> None:
    """Print what a command found: everything as strict JSON, else its lines and tables for this terminal."""
    print(json.dumps(found, indent=2, allow_nan=False) if as_json else to_text(parts, **look_of(sys.stdout)))


def write_output(path: Path, content: bytes, inputs: Iterable[Path]) -> None:
    """Write a file that was asked for. Raises InputError where it is one that was read, which would be lost."""
    if path.exists() and any(map(path.samefile, inputs)):
        raise InputError(f"{path} is what was read: name another file")
    path.write_bytes(content)


class ProcessFailedError(Exception):
    """A process that measures ended without a result; the message is one line that says why."""


def result_of(module: str, *words: str, timeout: float) -> dict[str, Any]:
    """What a module of `jaxobs.measure` finds in a process of its own: the last line that is an object in JSON.

    Raises ProcessFailedError.
    """
    # Without this JAX would take most of a GPU's memory, which a job that runs there now may need.
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", env=environment, timeout=timeout, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ProcessFailedError(f"{module} gave no result within {timeout:.0f} s") from None
    for line in reversed(done.stdout.splitlines()):
        with suppress(ValueError):  # what a library prints as it ends
            if isinstance(found := json.loads(line), dict):
                return found
    last = next(iter(done.stderr.strip().splitlines()[-1:]), "no message")
    raise ProcessFailedError(f"{module} ended with status {done.returncode}: {last}")
