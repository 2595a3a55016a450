"""A real agent process, spoken to as the training process does."""

from __future__ import annotations

import os
import select
import socket
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jaxobs.agent.service import Service
from jaxobs.config import Settings, plain_settings
from jaxobs.flow import wire
from jaxobs.flow.job_pipe import JobPipe
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, now
from jaxobs.model.events import Event, StepRows
from jaxobs.probe.transport.agent_process import start_agent_process

PATIENCE = 20.0
"""Seconds: a loaded machine with two cores needs some to start a process."""


@contextmanager
def service_in_process() -> Iterator[tuple[Service, socket.socket]]:
    """The agent's service as an object of this process, and the job's end of its pipe."""
    job, pipe = socket.socketpair()
    hello = {
        "settings": plain_settings(Settings(), rank_on_host=0, in_kubernetes=False),
        "resource": {}, "clock": tuple(ClockAnchor.read()), "began": now(),
    }  # fmt: skip
    with job, pipe:
        service = Service(hello, JobPipe(pipe))
        yield service, job
        service._pipe.close()


class AgentProcess:
    """Started as the job starts it.

    `logs` are the lines that it sent to the job's logger, `profiles` its requests for windows, `stacks_asked` how many it
    made for stacks.
    """

    def __init__(self, *, resource: Mapping[str, str] | None = None, **settings: Any) -> None:
        self.logs: list[str] = []
        self.profiles: list[tuple[float, bool]] = []
        self.stacks_asked = 0
        self._address: str | None = None
        self._replies: dict[int, Any] = {}
        self._asked = 0
        self._frames = wire.Frames()
        run_folder = settings.pop("run_folder", None)
        plain = Settings(**{"interval": 0.1, **settings}).to_dict()
        self.ended = False
        pipe = start_agent_process().pipe
        self.pipe = socket.socket(fileno=os.dup(pipe.fileno()))
        self.pipe.setblocking(True)
        pipe.close()
        self.last: tuple[dict[str, Any], dict[str, str]] | None = None
        hello = {
            "settings": plain | {"rank_on_host": 0, "in_kubernetes": False, "run_folder": run_folder},
            "resource": {
                "service.name": "job",
                "service.instance.id": "i",
                "process.pid": str(os.getpid()),
                **(resource or {}),
            },
            "clock": tuple(ClockAnchor.read()),
            "began": now(),
        }
        self.pipe.sendall(wire.frame(wire.HELLO, hello))

    def send(self, events: Sequence[Event | StepRows]) -> None:
        self.pipe.sendall(wire.events_frame(events)[0])

    def address(self) -> str:
        self.listen_until(lambda: self._address is not None)
        assert self._address is not None
        return self._address

    def snapshot(self) -> dict[str, Any]:
        self._asked += 1
        number = self._asked
        self.pipe.sendall(wire.frame(wire.REQUEST, (number, now() + int(PATIENCE * NANOSECONDS))))
        self.listen_until(lambda: number in self._replies)
        document: dict[str, Any] = self._replies.pop(number)
        return document

    def snapshot_when(self, condition: Any) -> dict[str, Any]:
        """The first snapshot of which `condition` holds."""
        deadline = time.monotonic() + PATIENCE
        while not condition(document := self.snapshot()):
            assert time.monotonic() < deadline, document
            time.sleep(0.05)
        return document

    def metrics(self) -> str:
        with urllib.request.urlopen(self.address(), timeout=20) as answer:
            text: str = answer.read().decode()
        return text

    def metrics_when(self, line: str) -> str:
        """The first page with that line in it."""
        deadline = time.monotonic() + PATIENCE
        while line not in (text := self.metrics()):
            assert time.monotonic() < deadline, f"{line} is not in:\n{text}"
            time.sleep(0.05)
        return text

    def finish(self, timeout: float) -> float:
        """Ask for the end; seconds until the pipe ended."""
        began = time.monotonic()
        self.pipe.sendall(wire.frame(wire.FINISH, (timeout, "ended")))
        self.listen_until(lambda: self.ended)
        return time.monotonic() - began

    def close(self) -> None:
        """The end of the job: as it is then, nobody waits for the agent."""
        self.pipe.close()

    def listen_until(self, condition: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert not self.ended, f"the agent has ended; it said {self.logs}"
            assert time.monotonic() < deadline, f"no answer from the agent; it said {self.logs}"
            readable, _, _ = select.select([self.pipe], [], [], 0.1)
            if not readable:
                continue
            piece = self.pipe.recv(1 << 20)
            self.ended = not piece
            for kind, body in self._frames.feed(piece):
                if kind == wire.REPLY:
                    self._replies[body[0]] = body[1]
                elif kind == wire.ADDRESS:
                    self._address = body[0] or self._address
                elif kind == wire.PROFILE:
                    self.profiles.append(tuple(body))
                elif kind == wire.STACKS:
                    self.stacks_asked += 1
                elif kind == wire.LOG:
                    self.logs.append(body)
                elif kind == wire.LAST:
                    self.last = body
