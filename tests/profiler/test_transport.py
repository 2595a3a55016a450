"""A trace crosses the pipe whole, however slowly the agent takes it, and is told of in its place."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

from jaxobs.flow import wire
from jaxobs.flow.pipe import Descriptor
from jaxobs.flow.ring import Ring
from jaxobs.model.events import LoopEnded, ProfileWindow
from jaxobs.probe.transport.agent_process import AgentProcess
from jaxobs.probe.transport.sender import Agents, Sender


def test_a_large_trace_reaches_an_agent_that_reads_slowly() -> None:
    end, theirs = socket.socketpair()
    ours = Descriptor(end)
    ring = Ring(100)
    sender = Sender(
        ring,
        Agents(lambda: AgentProcess(ours), dict, lambda kind, body: None),
        list,
        print,
        interval=0.05,
    )
    trace = os.urandom(5_000_000)
    ring.emit(LoopEnded("before", 1, 0))
    ring.emit(ProfileWindow("scheduled", "read", 1, 2, 3, trace, "", ""))
    ring.emit(LoopEnded("after", 4, 0))
    sender.open()
    thread = threading.Thread(target=sender.run)
    thread.start()
    frames = wire.Frames()
    arrived: list[tuple[bytes, Any]] = []
    events: list[Any] = []
    theirs.settimeout(10)
    while not any(event == LoopEnded("after", 4, 0) for event in events):
        time.sleep(0.001)
        for kind, body in frames.feed(theirs.recv(1 << 16)):
            arrived.append((kind, body))
            if kind == wire.EVENTS:
                events += wire.events_of(body)
    theirs.close()
    sender.finish(1.0)
    thread.join(10)
    assert [body for kind, body in arrived if kind == wire.PAYLOAD] == [trace]
    kinds = [kind for kind, _ in arrived]
    assert kinds[0] == wire.HELLO
    assert wire.EVENTS in kinds[kinds.index(wire.PAYLOAD) :]
    told = [event for event in events if isinstance(event, LoopEnded | ProfileWindow)]
    assert [type(event).__name__ for event in told] == ["LoopEnded", "ProfileWindow", "LoopEnded"]
    assert told[1].xspace == b""
    assert ring.dropped() == 0
