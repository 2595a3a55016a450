"""Says why a job does not answer, and whether it waits for the agent, by what the system tells of it (Linux: proc(5))."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path

from jaxobs.derive.loops.hangs import STOPPED

DOING = {
    "T": STOPPED,
    "t": STOPPED,
    "D": "its main thread waits for a disk or a network file system",
    "R": "its main thread runs, perhaps native code that holds Python's interpreter lock",
    "S": "its main thread sleeps, perhaps while a thread in native code holds Python's interpreter lock",
}
"""By the state of a process, which is that of its main thread."""

RUNNING = "R"
"""State of a thread that runs, or would if a processor were free."""

MAX_NAMED = 5
"""Names of threads that are told: a hundred of XLA's have two or three between them."""


def why_silent(pid: str, folder: Path = Path("/proc")) -> str:
    """What a process is doing of which nothing is heard any more, and which of its other threads run."""
    state = _fields(folder / pid / "stat")[0]
    tasks = (path for path in (folder / pid / "task").glob("[0-9]*") if path.name != pid)
    running = Counter(_read(path / "comm").strip() for path in tasks if _fields(path / "stat")[0] == RUNNING)
    named = [f"{name} ({count})" for name, count in running.most_common(MAX_NAMED)]
    others = f"; of its other threads {sum(running.values())} run: {', '.join(named)}" if running else ""
    return f"the process does not answer: {DOING.get(state, 'nothing is known of its threads')}{others}"


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
