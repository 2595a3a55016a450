"""Says what the system tells of a job: why it does not answer, whether it waits for the agent, how it ended (proc(5))."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
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


EXIT_SECONDS = 1.0
"""Most seconds between the end of the pipe and that of the process, which may first close its devices."""

_EXIT_STATUS = 49
"""The field `exit_code` of /proc/PID/stat, counted from the state (proc_pid_stat(5))."""

_GET_INFO, _INFO_EXIT = 0xC040_FF0B, 8
"""PIDFD_GET_INFO and PIDFD_INFO_EXIT (linux/pidfd.h, Linux 6.15): a request of 64 bytes, the exit status in the last."""


class Exit:
    """The exit of a process that is no child of this one."""

    def __init__(self, job: str) -> None:
        self._job, self._process = job, None
        with contextlib.suppress(OSError, ValueError, AttributeError):  # an old system, or a sandbox
            self._process = os.pidfd_open(int(job))

    def status(self) -> int | None:
        """Wait for it, EXIT_SECONDS at most. Its status as wait(2) gives it; None where it cannot be told any more."""
        if self._process is None or not select.select([self._process], [], [], EXIT_SECONDS)[0]:
            return None
        fields = _fields(Path("/proc", self._job, "stat"))
        if fields[0] == "Z":  # its parent has not asked for it yet
            return int(fields[_EXIT_STATUS])
        with contextlib.suppress(OSError):
            info = fcntl.ioctl(self._process, _GET_INFO, struct.pack("Q56x", _INFO_EXIT))
            told, status = struct.unpack("Q52xi", info)
            return int(status) if told & _INFO_EXIT else None
        return None


def _fields(stat: Path) -> list[str]:
    """State of a process and what follows it, its parent's number first; at least these two, empty if it has ended."""
    # The name stands in brackets before the state and may hold any character.
    return [*_read(stat).rpartition(") ")[2].split(" "), ""]


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
