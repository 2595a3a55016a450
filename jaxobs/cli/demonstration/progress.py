"""Shows the demo's progress on standard error: bars on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_SECONDS = 5.0
"""Seconds between two lines where there is no terminal, so that a log of 30 s stays readable."""


Bar = Callable[[float, str], None]
"""Shows the share that is done, 0 to 1, and a text."""


@contextmanager
def bar(title: str) -> Iterator[Bar]:
    """A bar for one activity, which is removed at its end, or lines, which stay."""
    if not sys.stderr.isatty():
        yield _Lines(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.fields[title]}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0, title=title)
        yield lambda share, text: progress.update(task, completed=min(share, 1.0), description=text)


class _Lines:
    def __init__(self, title: str) -> None:
        self._title = title
        self._next = time.monotonic() + LINE_SECONDS

    def __call__(self, share: float, text: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_SECONDS
            say(f"{self._title} {min(share, 1.0):4.0%}  {text}")


def say(line: str) -> None:
    """Print one line on standard error, and flush it."""
    print(line, file=sys.stderr, flush=True)
