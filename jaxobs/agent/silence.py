"""Says why a job does not answer, and whether it waits for the agent, by what the system tells of it (Linux: proc(5))."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

STOPPED = "it was stopped by a signal (SIGSTOP, or a debugger)"
DOING = {
    "T": STOPPED,
    "t": STOPPED,
    "D": "its main thread waits for a disk or a network file system",
    "R": "its main thread runs, perhaps native code that holds Python's interpreter lock",
    "S": "its main thread sleeps, perhaps while a thread in native code holds Python's interpreter lock",
}
"""By the state of a process, which is that of its main thread."""


def why_silent(pid: str, folder: Path = Path("/proc")) -> str:
    """What a process is doing of which nothing is heard any more."""
    state = _fields(folder / pid / "stat")[0]
    return f"the process does not answer: {DOING.get(state, 'nothing is known of its threads')}"


def waits_for_us(job: str, folder: Path = Path("/proc")) -> bool:
    """Whether a job waits for all its children of which this process is the only one, and so would wait for ever.

    It is one where the job is the first process of its container. Ask twice: what is read is not of one moment.
    """
    # Its main thread: others may reap orphans while it trains.
    if str(os.getppid()) != job or _read(folder / job / "wchan") != "do_wait":
        return False
    children = {path.parent.name for path in folder.glob("[0-9]*/stat") if _fields(path)[1] == job}
    return children == {str(os.getpid())}


def _fields(stat: Path) -> list[str]:
    """State of a process and what follows it, its parent's number first; at least these two, empty if it has ended."""
    # The name stands in brackets before the state and may hold any character.
    return [*_read(stat).rpartition(") ")[2].split(" "), ""]


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
