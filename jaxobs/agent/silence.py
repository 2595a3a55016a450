"""Says why a job does not answer, by what the system tells of its main thread (Linux: proc(5))."""

from __future__ import annotations

import contextlib
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
    text = ""
    with contextlib.suppress(OSError):  # it has ended meanwhile
        text = (folder / pid / "stat").read_text(encoding="utf-8", errors="replace")
    # The name stands in brackets before the state and may hold any character.
    state = text.rpartition(") ")[2][:1]
    return f"the process does not answer: {DOING.get(state, 'nothing is known of its threads')}"
