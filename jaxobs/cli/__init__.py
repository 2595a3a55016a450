"""The command `jaxobs`, with one file for each subcommand, which is imported only when it is called.

A command module has `SUMMARY`, one line for the help, and `run(arguments) -> exit status`. It raises
InputError for input it cannot use.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any

from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.text import printable

COMMANDS = (
    "run", "demo", "check", "plugins", "analyze", "memory", "calibrate", "compare", "show", "runs", "postmortem",
    "top",
)  # fmt: skip

INTERRUPTED = 130
"""The exit status by which shells know a program that Ctrl-C ended: 128 + SIGINT."""

_USAGE = "usage: jaxobs COMMAND [arguments]; `jaxobs COMMAND --help` tells about one"


def say(speaker: str, message: object) -> None:
    """One line on standard error after the name of who says it."""
    tell(f"{speaker}: {message}")


def tell(line: str) -> None:
    """One line on standard error, whatever is in it."""
    print(printable(line), file=sys.stderr, flush=True)


@contextlib.contextmanager
def using(what: str, instead: str = "") -> Iterator[None]:
    """Raises InputError for what the wrong types in somebody else's document or trace make the block raise.

    `instead` ends the message: what else there is.

    A document is not compared with a schema: each figure in it may be absent, and what is drawn of it is the check.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  # which it is depends on the value and on who reads it
        why = f"{type(error).__name__}: {error}"[:200]  # it may quote what it could not use
        raise InputError(f"{what} cannot be shown, as it is not whole: {why}{instead}") from None


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status: 2, and a line on stderr, for input that cannot be used."""
    arguments = sys.argv[1:] if arguments is None else arguments
    command = arguments[0] if arguments else ""
    speaker = f"jaxobs {command}" if command in COMMANDS else "jaxobs"
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # so that a terminal with ASCII alone gets the rest
    try:
        status = _answer(command, arguments[1:])
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where errors can be reported, and not at the interpreter's exit
    except InputError as error:
        say(speaker, error)
        return 2
    except KeyboardInterrupt:  # in commands that do not handle it themselves
        say(speaker, "interrupted")
        return INTERRUPTED
    except OSError as error:
        return _not_written(error, speaker)
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] in {"jaxobs", "jaxobs_plugins"}:
            raise
        say(speaker, f"{error}: run `pip install jaxobs`, which brings what it needs")
        return 1
    return status


def _answer(command: str, arguments: list[str]) -> int:
    if command in {"--version", "-V"}:
        from jaxobs.plugin.discovery import installed_versions

        unknown = "of a source tree that is not installed"
        print(f"jaxobs {installed_versions('jaxobs').get('jaxobs', unknown)}")
        return 0
    if command in {"--help", "-h", "help"}:
        print(_help())
        return 0
    if command not in COMMANDS:
        raise InputError(_no_such_command(command))
    status: int = _module(command).run(arguments)
    return status


def _not_written(error: OSError, speaker: str) -> int:
    """The exit status where the output could not be written, or 2 for a file that cannot be used."""
    if error.filename is not None:
        say(speaker, f"cannot use {error.filename}: {error.strerror}")
        return 2
    if error.errno == errno.ENOSPC:
        say(speaker, f"the output could not be written: {error.strerror}; make room there")
    elif error.errno != errno.EPIPE:  # else the reader of a pipe (`jaxobs plugins | head`) has left
        raise error
    with contextlib.suppress(OSError, ValueError):  # lets the interpreter's last flush go nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _no_such_command(word: str) -> str:
    if not word:
        return f"no command given; there are {', '.join(COMMANDS)}; `jaxobs --help` tells more"
    from jaxobs.plugin.settings import meant

    close = meant(word, (*COMMANDS, "--help", "--version"), "{}")
    return f"unknown command {word!r}{close}; `jaxobs --help` lists the commands"


def _module(command: str) -> Any:
    from importlib import import_module

    return import_module(f"jaxobs.cli.{command}")


def _help() -> str:
    lines = [_USAGE, "", "commands:"]
    lines += [f"  {command:<10} {_module(command).SUMMARY}" for command in COMMANDS]
    return "\n".join([*lines, "", "  --version  the version of jaxobs", "  --help     this text"])
