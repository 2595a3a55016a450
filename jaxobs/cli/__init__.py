"""The command `jaxobs`: one file a command, imported only when it is called.

A command module has `SUMMARY`, one line for the help, and `run(arguments) -> exit status`. It raises
UsageError for input it cannot use.
"""

from __future__ import annotations

import sys
from typing import Any

COMMANDS = ("run", "demo", "check", "plugins", "analyze", "calibrate")

_USAGE = "usage: jaxobs COMMAND [arguments]; `jaxobs COMMAND --help` tells about one"


class UsageError(Exception):
    """Input that a command cannot use; the message is one line that says what was wrong and what to do."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status: 2, and a line on stderr, for input that cannot be used."""
    arguments = sys.argv[1:] if arguments is None else arguments
    command = arguments[0] if arguments else ""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows ASCII only still gets the rest
    if command in {"--version", "-V"}:
        print(f"jaxobs {_version()}")
        return 0
    if command in {"--help", "-h", "help"}:
        print(_help())
        return 0
    try:
        if command not in COMMANDS:
            raise UsageError(_no_such_command(command))  # noqa: TRY301  # one place prints every such line
        status: int = _module(command).run(arguments[1:])
    except UsageError as error:
        print(f"jaxobs{' ' + command if command in COMMANDS else ''}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe (`jaxobs plugins | head`) has left
        sys.stdout = None  # or the interpreter complains when it flushes at exit
        return 1
    return status


def suggestion(word: str, known: tuple[str, ...] | list[str]) -> str:
    """` (did you mean …?)` for a mistyped word, empty where nothing is close."""
    import difflib

    close = difflib.get_close_matches(word, known, 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _no_such_command(word: str) -> str:
    if not word:
        return f"no command given; there are {', '.join(COMMANDS)}; `jaxobs --help` tells more"
    return f"unknown command {word!r}{suggestion(word, COMMANDS)}; `jaxobs --help` lists the commands"


def _module(command: str) -> Any:
    from importlib import import_module

    return import_module(f"jaxobs.cli.{command}")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("jaxobs")
    except PackageNotFoundError:
        return "of a source tree that is not installed"


def _help() -> str:
    lines = [_USAGE, "", "commands:"]
    lines += [f"  {command:<10} {_module(command).SUMMARY}" for command in COMMANDS]
    return "\n".join([*lines, "", "  --version  the version of jaxobs", "  --help     this text"])
