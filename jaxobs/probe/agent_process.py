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
    """Raises OSError where a process cannot be started, TypeError or ValueError where Python does not know its path."""
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _ENTRY, str(theirs.fileno()), *_import_path()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C at the terminal is the job's
            cwd="/",  # the job's directory must be free to be removed or unmounted
            # A launcher's sitecustomize comes by PYTHONPATH and would instrument the agent too.
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
    except BaseException:
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


_ENTRY = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from jaxobs.agent.main import main; sys.exit(main(int(sys.argv[1])))"
)


def _import_path() -> list[str]:
    """So that the agent finds what the job finds, wherever the job was started from.

    The script's own folder comes last: a `csv.py` beside the script is for the script, and not for the agent.
    """
    ours = str(Path(__file__).resolve().parents[2])
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    beside = str(Path(script).resolve().parent) if script else str(Path.cwd())
    found = [str(Path(entry).resolve()) for entry in sys.path]
    return list(dict.fromkeys([*(entry for entry in found if entry != beside), ours, beside]))


def start_agent_thread(serve: Callable[[socket.socket], None]) -> Connection:
    """The same agent on a thread of the job, for where a process cannot be had. Raises OSError where no thread can."""
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs,), name="jaxobs-agent", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        ours.close()
        theirs.close()
        raise OSError(str(error)) from error
    return ours, thread.join
