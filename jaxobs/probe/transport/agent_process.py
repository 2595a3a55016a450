"""Starts the agent: a Python process in a session of its own, which has one end of a pipe from the job.

The agent is no child of the job, and at no time has the job a child that it could find: `clone()` makes a process that
sends no signal when it ends and that `wait()` does not see, this one has libc's `system()` run a shell, and the shell
starts the agent in the background. When the shell has ended the agent belongs to the first process of the machine or of
the container, or to the nearest child subreaper above the job.
"""

from __future__ import annotations

import contextlib
import ctypes
import marshal
import os
import signal
import subprocess
import sys
from pathlib import Path

from jaxobs.flow.pipe import Descriptor
from jaxobs.identity import state_and_start

STARTER_PATIENCE = 10.0
"""Seconds to wait for the process that forks the agent where `clone()` cannot be used."""

_CLONE_VM, _CLONE_VFORK, _WCLONE = 0x100, 0x4000, -0x8000_0000  # clone(2), waitpid(2); the last as a C `int`
_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37  # prctl(2)
_STACK_BYTES = 1 << 18
"""More than a thread of musl has; `system()` itself needs some kilobytes."""

_KEPT_VARIABLES = {
    "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE",
}  # fmt: skip
"""Python's variables that the agent shares with the job: by these it finds what is installed. PYTHONPATH may bring a
launcher's `sitecustomize`; PYTHONTRACEMALLOC, PYTHONDEVMODE and their kin are meant for the job, and slow."""

_FORK = "import posix; posix.fork() and posix._exit(0); "

_ENTRY = (
    "import os, sys; fd, size = int(sys.argv[1]), int(sys.argv[3]); os.set_inheritable(fd, False); "
    "os.set_blocking(fd, True); os.setsid()\n"
    "for other in map(int, os.listdir('/dev/fd')):\n"
    "  if other > 2 and other != fd: os.closerange(other, other + 1)\n"
    "path = b''\n"
    "while len(path) < size: path += os.read(fd, size - len(path)) or sys.exit()\n"
    "import marshal, site; site.main(); sys.path[:] = marshal.loads(path); "
    "from jaxobs.agent.main import main; sys.exit(main(fd))"
)
"""The program of the agent's process. Its own descriptors are closed before anything else: a caller may wait for the end
of the job's. It gets its import path by the pipe, as the path may be longer than a command; `job=` is for who looks at a
list of processes."""


class AgentProcess:
    """The agent as the job has it: the job's end of the pipe, and what can be learned of the process without it."""

    def __init__(self, pipe: Descriptor) -> None:
        self.pipe = pipe
        self._pid = 0
        self._started = ""
        """When it was started: another process may have its number later."""

    def introduced(self, pid: int) -> None:
        """Take the number of its process, which the agent has sent."""
        self._pid = pid
        _, self._started = state_and_start(pid)

    @property
    def has_started(self) -> bool:
        """Whether it has sent its number."""
        return self._pid > 0

    def is_stopped(self) -> bool:
        """Whether it is suspended (SIGSTOP, a debugger), so that it will send nothing."""
        return self._is_in("Tt")

    def kill_if_stopped(self) -> None:
        """End it where it is suspended."""
        if self.is_stopped():
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)

    def hasten(self) -> None:
        """Give its session the share of a processor that the job's has, as the job waits for it; without a right to, not.

        It gave way to the job all the time (`jaxobs.agent.main.give_way`). On a busy machine it is behind by then.
        """
        with contextlib.suppress(OSError):
            # Else it would be somebody else's session.
            if self._is_in("RSD") and os.getsid(self._pid) == self._pid:
                Path(f"/proc/{self._pid}/autogroup").write_bytes(b"0")

    def gone(self) -> None:
        """Take note of its end, where it is our child: we are the first process of a container then."""
        if self._is_in("Z"):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, os.WNOHANG)

    def _is_in(self, states: str) -> bool:
        state, started = state_and_start(self._pid) if self._started else ("", "")
        return bool(state) and state in states and started == self._started


def start_agent_process() -> AgentProcess:
    """Start the agent. Raises OSError where that fails; or what a guard raises that forbids sockets, files, processes."""
    if getattr(sys, "frozen", False):  # its `sys.executable` is the application
        raise OSError("this program is frozen: it has no Python to start the agent with")
    if not sys.executable or not os.access(sys.executable, os.X_OK):
        raise OSError(f"there is no Python at {sys.executable!r}")
    if not os.access("/dev/fd", os.R_OK):  # a link into /proc, by which the agent finds what it has to close
        raise OSError("there is no /dev/fd, as where /proc is not mounted")
    path = marshal.dumps(_import_path())
    ours, theirs = Descriptor.pair()
    try:
        # For the milliseconds in which the shell starts, what C code of the job starts inherits this end too. With
        # it the agent still sees the end of the job; only its own end would be seen no earlier than that of both.
        os.set_inheritable(theirs.fileno(), True)
        if ours.send(path) < len(path):  # of more than a hundred kilobytes
            raise OSError("the job's sys.path is too long to be handed on")  # noqa: TRY301  # both ends are closed
        arguments = [str(theirs.fileno()), f"job={os.getpid()}", str(len(path))]
        python = [str(Path(sys.executable).absolute()), "-S", "-c"]
        if not _start_unseen([*python, _ENTRY, *arguments]):
            _start_by_child([*python, _FORK + _ENTRY, *arguments], theirs.fileno())
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return AgentProcess(ours)


def _start_unseen(command: list[str]) -> bool:
    """Have `command` run in the background by a process that nobody sees. False where that cannot be done here."""
    if not os.access("/bin/sh", os.X_OK) or _system_runs() or not _has_a_directory():
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    unset = [name for name in os.environ if name.startswith("PYTHON") and name not in _KEPT_VARIABLES]
    known = [name for name in unset if name.isascii() and name.isidentifier()]  # others no shell can unset
    unsetting = f"unset {' '.join(known)}; " if known else ""
    quoted = " ".join(map(_quoted, command))
    script = f"exec </dev/null >/dev/null 2>&1; {unsetting}cd /; exec {quoted} &"
    stack = ctypes.create_string_buffer(_STACK_BYTES)
    top = (ctypes.addressof(stack) + _STACK_BYTES) & ~0xF
    system = ctypes.cast(libc.system, ctypes.c_void_p)
    line = ctypes.c_char_p(os.fsencode(script))
    subreaper = ctypes.c_int(0)
    libc.prctl(_GET_CHILD_SUBREAPER, ctypes.byref(subreaper), 0, 0, 0)
    # As after vfork(2), this thread stands still until the new process has ended, whose memory is the job's. It must run
    # no signal handler of the job's, and what it starts begins with the same mask: no Ctrl-C ends the agent.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        if subreaper.value:
            # The agent would be our child for good. Another orphan of the job's in these milliseconds is missed as well.
            libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        pid = libc.clone(system, ctypes.c_void_p(top), _CLONE_VM | _CLONE_VFORK, line)
        if pid > 0:
            with contextlib.suppress(ChildProcessError):  # somebody waits for such children too
                os.waitpid(pid, _WCLONE)
    finally:
        if subreaper.value:
            libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return bool(pid > 0)


def _has_a_directory() -> bool:
    """Whether the working directory is there: without one a shell says so, on the job's console, before all else."""
    try:
        return bool(Path.cwd())
    except OSError:
        return False


def _system_runs() -> bool:
    """Whether a thread of the job is in `system()`, which lets the job ignore SIGINT and SIGQUIT meanwhile.

    glibc counts who is in it, in memory that the new process shares: the job would go on to ignore them.
    """
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
        ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    except Exception:  # noqa: BLE001  # no such file, or a guard of the job's forbids to open it
        return True
    return bool(ignored >> signal.SIGQUIT - 1 & 1) and signal.getsignal(signal.SIGQUIT) != signal.SIG_IGN


def _start_by_child(command: list[str], descriptor: int) -> None:
    """Have a child run `command`, which forks: it can be found among the job's children for some milliseconds."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[descriptor],
        cwd="/",
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON") or k in _KEPT_VARIABLES},
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        if child.wait(STARTER_PATIENCE):
            raise OSError(f"a Python that was to start it ended with status {child.returncode}")


def _quoted(word: str) -> str:
    """A word for the shell, whatever is in it."""
    return "'" + word.replace("'", "'\\''") + "'"


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
    installed = (str(Path(os.__file__).parent), *site.getsitepackages(), site.getusersitepackages())
    roots = tuple(str(Path(root).resolve()) for root in installed)
    entries = [str(Path(entry).resolve()) for entry in sys.path]
    # Under `python -m cProfile` it is the standard library that is beside the script.
    found = [entry for entry in entries if entry != beside or entry in roots]
    own = [entry for entry in found if entry.startswith(roots)]
    first = [] if ours in own or ours == beside else [ours]
    return list(dict.fromkeys([*first, *own, *found, ours]))
