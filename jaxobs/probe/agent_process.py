"""Starting the agent: the same Python, in a session of its own, with nothing of the job but one end of a pipe."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

Connection = tuple[socket.socket, Callable[[float], None]]
"""The job's end of the pipe, and a function that waits so many seconds for the other side to be gone."""


def start_agent_process() -> Connection:
    """Raises OSError where a process cannot be started."""
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _ENTRY, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C at the terminal is the job's
            cwd="/",  # the job's directory must be free to be removed or unmounted
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path())},
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()

    def wait(timeout: float) -> None:
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            # It ends by itself within its own deadline. Whoever reaps it, it is not waited for any longer here; Python
            # warns of a process object that goes while its child lives.
            process.returncode = 0

    return ours, wait


_ENTRY = "import sys; from jaxobs.agent.main import main; sys.exit(main(int(sys.argv[1])))"


def _import_path() -> list[str]:
    """So that the agent finds what the job finds, in the same order, wherever the job was started from."""
    here = str(Path(__file__).resolve().parents[2])
    return list(dict.fromkeys([*(str(Path(entry).resolve()) for entry in sys.path if entry), here]))


def start_agent_thread(serve: Callable[[socket.socket], None]) -> Connection:
    """The same agent on a thread of the job, for where a process cannot be had."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs,), name="jaxobs-agent", daemon=True)
    thread.start()
    return ours, thread.join
