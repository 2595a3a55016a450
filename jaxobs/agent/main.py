"""The agent's process, from its first line to its last."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from jaxobs.agent.service import Service
from jaxobs.flow import wire
from jaxobs.flow.job_pipe import JobPipe
from jaxobs.model.clock import sleep
from jaxobs.plugin.guard import described

NICENESS = 10
"""The agent's niceness. The job comes first: of a core that both want, the agent gets a tenth. That is its share over
many ticks of the kernel's clock; within one, up to 4 ms at 250 Hz, the job may wait.

Measured with both cores of a machine taken by the job: scrapes took 7 ms, at worst 0.8 s while a module of 50 000
instructions was decoded. At 19 the worst took 1.9 s, and with SCHED_IDLE 1.6 s: too long for a scrape.
"""

AUTOGROUP = Path("/proc/self/autogroup")
AUTOGROUP_TRIES = 50
AUTOGROUP_RETRY_SECONDS = 0.1
"""Linux lets unprivileged processes change one autogroup's priority in 0.1 s, all together; the ranks of a host start
at the same time."""


REFUSED = frozenset({"jax", "jaxlib"})


def main(descriptor: int) -> int:
    """Run the agent process to its end; `descriptor` is its end of the pipe."""
    # The job alone ends the agent, by the end of the pipe; signals sent to a whole container reach both.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # The shell let it be ignored, and the job let all be blocked.
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    refuse_jax()
    with contextlib.suppress(OSError):
        # The job's, where niceness counts for nothing.
        if os.sched_getscheduler(0) in {os.SCHED_FIFO, os.SCHED_RR}:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.nice(NICENESS)
    pipe = JobPipe(socket.socket(fileno=descriptor))
    pipe.send(wire.STARTED, os.getpid())
    serve(pipe, started=give_way)
    # Threads of exporters that hang must not keep the process alive: all that could be flushed has been.
    os._exit(0)


def give_way(autogroup: Path = AUTOGROUP) -> None:
    """Lower the priority of this process's session, where Linux shares out time by sessions. Returns at once.

    With autogroups (sched(7)), on by default, niceness counts only within a session, and the agent has one of its own:
    without this it gets half of a core that the job wants, at any niceness. It is called once the agent has started: at
    a tenth of a busy core the half second of its start would take five.
    """
    if os.getsid(0) == os.getpid() and autogroup.exists():  # else it would be somebody else's session
        threading.Thread(target=_lower, args=(autogroup,), name="jaxobs-priority", daemon=True).start()


def _lower(autogroup: Path) -> None:
    for _ in range(AUTOGROUP_TRIES):
        try:
            autogroup.write_text(str(NICENESS))
        except BlockingIOError:
            sleep(AUTOGROUP_RETRY_SECONDS)
        except OSError:  # not ours to change, or no autogroups in this kernel
            return
        else:
            return


def serve(pipe: JobPipe, *, started: Callable[[], None] = lambda: None) -> None:
    """Read the greeting, then work until the job ends; `started` is called once the threads of all plugins run."""
    frames = wire.Frames()
    waiting: list[tuple[bytes, Any]] = []
    while not waiting:
        piece = pipe.receive()
        if not piece:
            return
        waiting = list(frames.feed(piece))
    kind, hello = waiting.pop(0)
    if kind != wire.HELLO:
        raise wire.WireError(f"the first frame is of kind {kind!r}, not a greeting")
    try:
        service = Service(hello, pipe)
        service.start()
        started()
        service.serve(frames, waiting)
    except Exception as error:  # noqa: BLE001  # the job is told why its agent ends, on its logger and not its console
        pipe.send(wire.LOG, f"the agent failed: {described(error)}")
    pipe.end()


class _Refuser(MetaPathFinder, Loader):
    """An import finder that finds the REFUSED modules, so that a search for them succeeds, and refuses to load them."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002  # the import system's
        target: ModuleType | None = None,  # noqa: ARG002  # the import system's
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in REFUSED else None

    def exec_module(self, module: ModuleType) -> None:
        raise ImportError(
            f"the agent does not import {module.__name__}: a probe imports it in start(), which runs in the job alone,"
            " and not at the top of its module",
            name=module.__name__,
        )


def refuse_jax() -> None:
    """Let `import jax` raise ImportError in this process from now on. JAX must not be imported yet."""
    sys.meta_path.insert(0, _Refuser())
