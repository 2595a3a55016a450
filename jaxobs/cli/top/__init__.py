"""`jaxobs top`: shows a running job, or all its ranks on a host, live in the terminal."""

from __future__ import annotations

import argparse
import os
import re
import ssl
import sys
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jaxobs.cli import say
from jaxobs.cli.console import Parser
from jaxobs.cli.terminal import look_of
from jaxobs.config import load_settings
from jaxobs.plugin.files import open_regular
from jaxobs.vocabulary import InputError

if TYPE_CHECKING:
    from jaxobs.cli.top.servers import Access, Target
    from jaxobs.cli.top.watch import Watch

SUMMARY = "watch a running job, or all its ranks on a host, in the terminal"

REFRESH_SECONDS: Final = 2.0
"""Seconds between refreshes; snapshots come once a second."""

ONCE_SECONDS: Final = 6.0
"""Seconds to wait for all answers, longer than one may take."""


def run(arguments: list[str]) -> int:
    """Draw until the user quits. With --once, or if the output is no terminal, write once."""
    from jaxobs.cli.top.watch import Watch

    options = _options(arguments)
    find = _finder(options.address)
    watch = Watch(find, _access(options))
    try:
        if options.once or not sys.stdout.isatty():
            return _write_once(watch, {str(target) for target in find()})
        try:
            from jaxobs.cli.top.view import TopApp
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "textual":
                raise
            lacking = "the live view is drawn by Textual: pip install 'jaxobs[top]'; --once does without"
            raise InputError(lacking) from None
        # Textual believes these variables, and would not follow the terminal to another size.
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)
        app = TopApp(watch, REFRESH_SECONDS)
        app.run()
        return app.return_code or 0
    finally:
        watch.close()


def _write_once(watch: Watch, asked: Set[str]) -> int:
    """Write the ranks once; `asked` are the addresses that no other server has named.

    Raises InputError (exit status 2) if a given address has no snapshot.
    """
    from jaxobs.cli import using
    from jaxobs.report.ranks import render_ranks

    watch.refresh(ONCE_SECONDS)
    with using("the snapshot"):
        shown = render_ranks([rank.observed for rank in watch.ranks], asked, **look_of(sys.stdout))
    if shown:
        print(shown)
    *others, last = watch.problems() or [""]
    for problem in others:
        say("jaxobs top", problem)
    if last:
        raise InputError(last)
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("top", SUMMARY)
    parser.add_argument(
        "address", nargs="*", metavar="ADDRESS",
        help="host:port or a URL of a job's metrics server, as the job logs it; a port of this host; or a directory of"
        " file_sd files (JAXOBS_FILE_SD_DIRECTORY). Default: the default port of this host, those after it, and the"
        " ranks that these name",
    )  # fmt: skip
    parser.add_argument("--once", action="store_true", help="write plain text once, as into a pipe")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE",
        help="holds the token that the servers want (default: JAXOBS_METRICS_TOKEN_FILE)",
    )  # fmt: skip
    parser.add_argument(
        "--ca-file", type=Path, metavar="FILE",
        help="certificates in PEM form that https:// addresses are believed by (default: those of the system)",
    )  # fmt: skip
    return parser.options(arguments)


def _finder(addresses: Sequence[str]) -> Callable[[], Sequence[Target]]:
    """A function that returns the servers at each call. Raises InputError for an address that cannot be one."""
    from jaxobs.cli.top.servers import own_targets, target_of, targets_in

    if not addresses:
        return own_targets
    directories = [Path(text) for text in addresses if Path(text).is_dir()]
    fixed = [target_of(text) for text in addresses if not Path(text).is_dir()]

    def find() -> list[Target]:
        try:
            return [*fixed, *(target for each in directories for target in targets_in(each))]
        except OSError as error:
            raise InputError(f"cannot read {error.filename}: {error.strerror or error}") from None

    if not find():
        raise InputError(
            f"{addresses[0]}: this directory names no rank: jobs do so with JAXOBS_FILE_SD_DIRECTORY={addresses[0]}"
        )
    return find


def _access(options: argparse.Namespace) -> Access:
    """The token and the trusted authorities. Raises InputError if a file cannot be used."""
    from jaxobs.cli.top.servers import Access

    try:
        token_file = options.token_file or load_settings().metrics_token_file
        authorities = ssl.create_default_context(cafile=options.ca_file) if options.ca_file else None
    except OSError as error:
        why = f"has no certificates in PEM form: {error.strerror or error}"
        raise InputError(f"--ca-file {options.ca_file} {why}") from None
    return Access(_token(token_file) if token_file is not None else None, authorities)


def _token(path: Path) -> str:
    try:
        with open_regular(path) as file:
            token = file.read(1 << 13).decode("ascii", "replace").strip()
    except OSError as error:
        raise InputError(f"cannot read the token in {path}: {error.strerror or error}") from None
    if not re.fullmatch("[!-~]+", token):
        raise InputError(f"{path} does not hold one token, as `openssl rand -hex 32` makes one")
    return token
