"""Starting the agent: a Python of its own, in a session of its own, with nothing of the job but one end of a pipe.

The agent is no child of the job: the process that the job starts forks the agent and ends at once. A job that waits for
its children until there are none does not wait for the agent, and no zombie stays. (Where the job is the first process of
a container every orphan becomes its child, the agent too.)
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

FORK_PATIENCE = 2.0
"""Seconds that a fork of the job's may wait for a start that is under way, which takes some milliseconds."""

STARTER_PATIENCE = 10.0
"""Seconds to wait for the process that forks the agent. It takes 12 ms on an idle machine, of two cores."""

FAREWELL_SECONDS = 0.2
"""An agent on a thread that has nothing more to say ends within some milliseconds, or waits for an exporter."""

_starting = threading.RLock()
_guards_forks = False
_pipes: list[socket.socket] = []
"""The job's ends that are open, for a forked child to close."""


class Agent(Protocol):
    """What the job can know of its agent, and do about it, without speaking to it."""

    def introduced(self, pid: int) -> None:
        """It has told the number of its process."""

    def is_stopped(self) -> bool:
        """True where it is suspended (SIGSTOP, a debugger), so that nothing will come from it."""

    def kill(self) -> None: ...

    def gone(self, timeout: float) -> None:
        """The pipe has ended: let go of what is kept of it, within `timeout` seconds."""

    def forget(self) -> None:
        """In a forked child: let go of what is the parent's."""


class AgentProcess:
    """A process that is no child: known by what it tells, and held by a descriptor, so that no other is ever meant."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._held: int | None = None

    def introduced(self, pid: int) -> None:
        self._pid = pid
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # older than Linux 5.3, or forbidden
                self._held = os.pidfd_open(pid)

    def is_stopped(self) -> bool:
        return self._pid is not None and _state(self._pid) in {"T", "t"}

    def kill(self) -> None:
        if self._pid is None:
            return
        with contextlib.suppress(OSError):
            if self._held is not None:
                signal.pidfd_send_signal(self._held, signal.SIGKILL)
            else:
                os.kill(self._pid, signal.SIGKILL)  # it is there, or the pipe would have ended

    def gone(self, timeout: float) -> None:  # noqa: ARG002  # there is nothing to wait for
        if self._pid is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(
                    self._pid, os.WNOHANG
                )  # it is our child where we are the first process of a container
        self.forget()

    def forget(self) -> None:
        held, self._held, self._pid = self._held, None, None
        if held is not None:
            os.close(held)


class AgentThread:
    """An agent on a thread of the job."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread

    def introduced(self, pid: int) -> None:
        pass

    def is_stopped(self) -> bool:
        return False

    def kill(self) -> None:
        pass

    def gone(self, timeout: float) -> None:
        self._thread.join(min(timeout, FAREWELL_SECONDS))

    def forget(self) -> None:
        pass


Connection = tuple[socket.socket, Agent]
"""The job's end of the pipe, and who is at the other."""


def start_agent_process() -> Connection:
    """Raises OSError where a process cannot be started, TypeError or ValueError where Python does not know its path."""
    _guard_forks()
    with _starting:  # a child forked meanwhile would keep both ends of the pipe, and the starter's error pipe
        ours, theirs = socket.socketpair()
        _pipes[:] = [*(pipe for pipe in _pipes if pipe.fileno() >= 0), ours]
        try:
            starter = _start(theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        if starter.wait(STARTER_PATIENCE):
            ours.close()
            raise OSError(f"a Python that was to start it ended with status {starter.returncode}")
    return ours, AgentProcess()


def close_in_child() -> None:
    """After a fork: a child that keeps an end of the pipe would keep the agent waiting for as long as it lives."""
    for pipe in _pipes:
        pipe.close()


def start_agent_thread(serve: Callable[[socket.socket], None]) -> Connection:
    """Run the agent on a thread of the job, where a process cannot be had. Raises OSError where no thread can."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs,), name="jaxobs-agent", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        ours.close()
        theirs.close()
        raise OSError(str(error)) from error
    return ours, AgentThread(thread)


_ENTRY = (
    "import posix; posix.fork() and posix._exit(0); posix.setsid(); "
    "import site, sys; site.main(); sys.path[:] = sys.argv[3:]; "
    "from jaxobs.agent.main import main; sys.exit(main(int(sys.argv[1])))"
)
"""Nothing is imported before the fork, and no site-packages looked through: the job has a child for that long. The second
argument is the job's process, for whoever wonders about the agent in a list of processes."""


def _start(theirs: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-S", "-c", _ENTRY, str(theirs.fileno()), f"job={os.getpid()}", *_import_path()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,  # Ctrl-C at the terminal is the job's
        cwd="/",  # the job's directory must be free to be removed or unmounted
        # A launcher's sitecustomize comes by PYTHONPATH and would instrument the agent too.
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )


def _import_path() -> list[str]:
    """So that the agent finds what the job finds, wherever the job was started from.

    The script's own folder comes last: a `csv.py` beside the script is for the script, and not for the agent.
    """
    ours = str(Path(__file__).resolve().parents[3])
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    beside = str(Path(script).resolve().parent) if script else str(Path.cwd())
    found = [str(Path(entry).resolve()) for entry in sys.path]
    return list(dict.fromkeys([*(entry for entry in found if entry != beside), ours, beside]))


def _guard_forks() -> None:
    """From now on no fork happens while a pipe is made, so that no child has an end of one that nobody closes there."""
    global _guards_forks
    if not _guards_forks and hasattr(os, "register_at_fork"):
        _guards_forks = True
        # Methods in C: what a signal's handler raises within a Python function that runs at a fork is printed and lost.
        os.register_at_fork(
            before=partial(_starting.acquire, True, FORK_PATIENCE),
            after_in_parent=_starting.release,
            after_in_child=_starting.release,
        )


def _state(pid: int) -> str:
    """The letter that Linux has for what a process does, empty where it is not told (proc_pid_stat(5))."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return ""
    try:
        text = os.read(file, 4096)
    finally:
        os.close(file)
    return text.rpartition(b")")[2][1:2].decode("ascii", "replace")
