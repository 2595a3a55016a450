"""How the agent begins and ends: `main` in a process of its own, `serve` on a thread where a process cannot be had."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import Any

from jaxobs.agent.service import Service
from jaxobs.flow import wire

NICENESS = 10
"""The job comes first where both want the same core."""


def main(descriptor: int) -> int:
    """The agent process's whole life; `descriptor` is its end of the pipe."""
    # The job alone says when it is over, by the end of the pipe; signals sent to a whole container reach both.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    serve(socket.socket(fileno=descriptor))
    # Threads of exporters that hang must not keep the process: everything that could be flushed has been.
    os._exit(0)


def serve(pipe: socket.socket, *, inline: bool = False) -> None:
    """Read the greeting, then work until the job ends."""
    frames = wire.Frames()
    waiting: list[tuple[bytes, Any]] = []
    while not waiting:
        piece = pipe.recv(1 << 16)
        if not piece:
            return
        waiting = list(frames.feed(piece))
    kind, hello = waiting.pop(0)
    if kind != wire.HELLO:
        raise wire.WireError(f"the first frame is of kind {kind!r}, not a greeting")
    try:
        service = Service(hello, pipe, inline=inline)
        service.start()
        service.serve(frames, waiting)
    except Exception as error:  # noqa: BLE001  # the job is told why its agent ends, on its logger and not its console
        with contextlib.suppress(OSError):
            pipe.sendall(wire.frame(wire.LOG, f"the agent failed: {type(error).__name__}: {error}"))
    with contextlib.suppress(OSError):
        pipe.shutdown(socket.SHUT_RDWR)
    pipe.close()
