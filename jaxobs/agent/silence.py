"""Says why a job does not answer, by what the system tells of its threads (Linux: proc(5))."""

from __future__ import annotations

import contextlib
from pathlib import Path

STOPPED = "it was stopped by a signal (SIGSTOP, or a debugger)"


def why_silent(pid: str, folder: Path = Path("/proc")) -> str:
    """What the threads of a process are doing of which nothing is heard any more."""
    states: dict[str, list[str]] = {}
    with contextlib.suppress(OSError):
        for task in sorted((folder / pid / "task").iterdir()):
            with contextlib.suppress(OSError, IndexError):  # it has ended meanwhile
                text = (task / "stat").read_text(encoding="utf-8", errors="replace")
                # The name stands in brackets before the state and may hold any character.
                states.setdefault(text.rpartition(") ")[2][0], []).append(task.name)
    known = "the process does not answer: "
    if not pid or not states:
        return f"{known}nothing is known of its threads"
    if "T" in states or "t" in states:
        return known + STOPPED
    if pid in states.get("D", ()):
        return f"{known}its main thread waits for a disk or a network file system"
    if pid in states.get("R", ()):
        return f"{known}its main thread runs, perhaps native code that holds Python's interpreter lock"
    return f"{known}its main thread sleeps, perhaps while a thread in native code holds Python's interpreter lock"
