"""Starts the agent: a Python process in a session of its own, which inherits one end of a pipe from the job.

The agent is no child of the job: the process that the job starts forks the agent and ends at once. So a job that waits
until it has no children does not wait for the agent, and no zombie is left. (Where the job is the first process of a
container, every orphan becomes its child, and so does the agent.)
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

FORK_PATIENCE = 2.0
"""Most seconds that a fork in the job waits for a start of the agent to end, which takes some milliseconds."""

STARTER_PATIENCE = 10.0
"""Seconds to wait for the process that forks the agent. It takes 12 ms on an idle machine with two cores."""

FAREWELL_SECONDS = 0.2
"""Most seconds to wait for an agent's thread after the end of its pipe: it takes milliseconds, or an exporter hangs."""

_starting = threading.RLock()
_guards_forks = False
_pipes: list[socket.socket] = []
"""The job's ends of pipes that are open, which a forked child must close."""


class Agent:
    """What the job can learn of its agent, and do to it, without the pipe: nothing, unless it is a process."""

    def introduced(self, pid: int) -> None:
        """Take the number of its process, which the agent has sent."""

    def is_stopped(self) -> bool:
        """Whether it is suspended (SIGSTOP, a debugger), so that it will send nothing."""
        return False

    def kill(self) -> None:
        """End it at once."""

    def gone(self, timeout: float) -> None:
        """Release what is held of the agent, within `timeout` seconds; called when the pipe has ended."""

    def forget(self) -> None:
        """Release what belongs to the parent; called in a forked child."""


class AgentProcess(Agent):
    """An agent in a process that is no child. A process descriptor (pidfd) guards against reuse of its number."""

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
            # It is our child where we are the first process of a container.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, os.WNOHANG)
        self.forget()

    def forget(self) -> None:
        held, self._held, self._pid = self._held, None, None
        if held is not None:
            os.close(held)


class AgentThread(Agent):
    """An agent on a thread of the job."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread

    def gone(self, timeout: float) -> None:
        self._thread.join(min(timeout, FAREWELL_SECONDS))


Connection = tuple[socket.socket, Agent]
"""The job's end of the pipe, and who is at the other."""


def start_agent_process() -> Connection:
    """Start the agent as a process. Raises OSError on failure, TypeError or ValueError if Python's path is unknown."""
    if getattr(sys, "frozen", False):  # its `sys.executable` is the application
        raise OSError("this program is frozen: it has no Python to start the agent with")
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
    """Close the pipes in a forked child: with an end open there, the agent would not see the end of the job."""
    for pipe in _pipes:
        pipe.close()


def start_agent_thread(serve: Callable[[socket.socket], None]) -> Connection:
    """Run the agent on a thread of the job, where a process cannot be started. Raises OSError where no thread can."""
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
"""The program of the agent's process. Nothing is imported before the fork, and no site-packages are searched, because
the job has a child for that long. The second argument names the job's process in a list of processes."""


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
    """The agent's `sys.path`: the interpreter's own folders, then what else the job has, where plugins may be.

    Without the script's folder, unless jaxobs itself is there: a `csv.py` beside the script is meant for the script, and
    a `google.py` would hide a package without an `__init__.py` that is installed. What a job puts on `sys.path` may be
    another version of what the agent needs, so it comes behind what is installed with jaxobs.
    """
    import site  # frozen: it cannot be a module of the user's

    ours = str(Path(__file__).resolve().parents[3])
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    beside = str(Path(script).resolve().parent) if script else str(Path.cwd())
    found = [entry for entry in (str(Path(entry).resolve()) for entry in sys.path) if entry != beside]
    installed = (str(Path(os.__file__).parent), *site.getsitepackages(), site.getusersitepackages())
    own = [
        entry for entry in found if entry.startswith(tuple(str(Path(root).resolve()) for root in installed))
    ]
    first = [] if ours in own or ours == beside else [ours]
    return list(dict.fromkeys([*first, *own, *found, ours]))


def _guard_forks() -> None:
    """Let forks wait while a pipe is made, so that no child inherits an end that `close_in_child` does not know."""
    global _guards_forks
    if not _guards_forks and hasattr(os, "register_at_fork"):
        _guards_forks = True
        # Methods in C: what a signal handler raises within a Python function that runs at a fork is printed and lost.
        os.register_at_fork(
            before=partial(_starting.acquire, True, FORK_PATIENCE),
            after_in_parent=_starting.release,
            after_in_child=_starting.release,
        )


def _state(pid: int) -> str:
    """The letter of a process's state on Linux (proc_pid_stat(5)); empty where it is not known."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # there is no such process, or it ended while it was read
        return ""
    return text.rpartition(b")")[2][1:2].decode("ascii", "replace")
