"""The sender counts what goes with an agent that dies: exactly what that had not said to have folded."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from jaxobs.flow import wire
from jaxobs.flow.pipe import Descriptor
from jaxobs.flow.ring import Ring
from jaxobs.model.clock import monotonic
from jaxobs.model.events import Event, FunctionWatched, LoopDeclared, ProbeReported, Recorded
from jaxobs.plugin.guard import LIMITS
from jaxobs.probe.transport.agent_process import AgentProcess
from jaxobs.probe.transport.sender import CLOSE_SECONDS, EVENTS_A_FRAME, Agents, Sender
from tests.waiting import wait_for


class Played:
    """One agent, played by the test."""

    def __init__(self, pipe: socket.socket) -> None:
        self.pipe = pipe
        self._frames = wire.Frames()

    def frames(self) -> list[tuple[bytes, Any]]:
        """The frames that are there now."""
        self.pipe.setblocking(False)
        found: list[tuple[bytes, Any]] = []
        while True:
            try:
                piece = self.pipe.recv(1 << 20)
            except BlockingIOError:
                return found
            found += self._frames.feed(piece)

    def read(self) -> list[list[Any]]:
        """The frames of events that are there now."""
        return [list(wire.events_of(body)) for kind, body in self.frames() if kind == wire.EVENTS]

    def folded(self, frames: int) -> None:
        self.pipe.sendall(wire.frame(wire.FOLDED, frames))


class Sending:
    """A sender whose life the test leads, one turn after the other."""

    def __init__(self) -> None:
        self.agents: list[Played] = []
        self.lines: list[str] = []
        self.ring = Ring(100_000)
        self.sender = Sender(
            self.ring, Agents(self._connect, dict, lambda kind, body: None), list, self.lines.append, 1.0
        )
        self.sender.open()
        self.sender._open()

    def _connect(self) -> AgentProcess:
        ours, theirs = socket.socketpair()
        self.agents.append(Played(theirs))
        return AgentProcess(Descriptor(ours))

    def flush(self) -> None:
        """A turn sends what is in the ring and a report."""
        self.sender._flush(1.0)

    def hear(self) -> None:
        self.sender._hear()

    def record(self, count: int) -> None:
        for number in range(count):
            self.ring.emit(Recorded("train", "loss", float(number), number))

    def told(self) -> int:
        """What the newest agent is told to have been dropped so far."""
        self.flush()
        return next(
            event.dropped
            for frame in reversed(self.agents[-1].read())
            for event in frame
            if isinstance(event, ProbeReported)
        )


@pytest.fixture
def sending() -> Iterator[Sending]:
    made = Sending()
    yield made
    made.sender.abandon()
    for agent in made.agents:
        agent.pipe.close()


def test_what_was_handed_over_and_not_folded_goes_with_the_agent(sending: Sending) -> None:
    sending.record(5)
    sending.flush()
    first = sending.agents[0]
    assert [len(frame) for frame in first.read()] == [5, 1]  # and the report
    first.folded(2)
    sending.hear()
    sending.record(EVENTS_A_FRAME + 2)
    sending.flush()
    assert [len(frame) for frame in first.read()] == [EVENTS_A_FRAME, 2, 1]  # read, and no more than that
    first.pipe.close()
    sending.flush()  # finds nobody; its report is lost too
    assert len(sending.agents) == 2
    assert sending.told() == EVENTS_A_FRAME + 3 + 1
    assert sending.told() == EVENTS_A_FRAME + 3 + 1
    early = f"before it had started (perhaps {LIMITS})"  # it never sent its number
    assert sending.lines == [f"the agent is gone {early}; it is started again"]


def test_what_an_agent_folded_is_not_counted_when_it_dies_later(sending: Sending) -> None:
    sending.record(2 * EVENTS_A_FRAME)
    sending.flush()
    first = sending.agents[0]
    first.folded(len(first.read()))
    sending.hear()
    first.pipe.close()
    sending.hear()  # the end of the pipe
    assert sending.told() == 0


@pytest.mark.parametrize("event", [FunctionWatched(-1, "f", "why", 0), LoopDeclared("train", 1e9, 0)])
def test_what_is_told_again_to_a_new_agent_is_not_lost(sending: Sending, event: Event) -> None:
    sending.ring.emit(event)
    sending.flush()
    for lost_before in (0, 1, 1):  # the report that went with the first
        assert sending.sender._lost_with_agents == lost_before
        sending.agents[-1].pipe.close()
        sending.hear()
    sending.flush()
    again, report = sending.agents[-1].read()
    assert again == [event]
    assert [told.dropped for told in report] == [1]


def test_a_frame_that_no_pipe_took_is_counted(sending: Sending) -> None:
    sending.record(50_000)
    sending.sender._flush(0.1)  # more than a pipe holds
    left = len(sending.ring)
    assert left > 0
    sending.agents[0].pipe.close()
    sending.hear()
    assert sending.sender._lost_with_agents == 50_000 - left


def test_what_no_time_is_left_for_at_the_end_is_told_to_have_been_dropped(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that others leave little of the processors goes on reading only when the job ends."""
    drain, agent = sending.ring.drain, sending.agents[0]

    def read_and_drain(most: int | None = None) -> list[Any]:
        if most is None:
            agent.frames()
        return drain(most)

    sending.record(50_000)
    sending.sender._flush(0.1)  # more than a pipe holds
    left = len(sending.ring)
    assert left > 0
    monkeypatch.setattr(sending.ring, "drain", read_and_drain)
    sending.sender._close(monotonic() + CLOSE_SECONDS)
    *_, (_, report), (last, _) = agent.frames()
    (told,) = wire.events_of(report)
    assert isinstance(told, ProbeReported)
    assert (told.dropped, last) == (left, wire.FINISH)


def test_a_request_during_a_flush_is_sent_after_what_was_emitted_before_it(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain = sending.ring.drain

    def drain_while_the_job_goes_on(most: int) -> list[Any]:
        taken = drain(most)
        monkeypatch.undo()
        sending.record(1)
        threading.Thread(target=sending.sender.requests.snapshot, args=(60.0,)).start()
        wait_for(lambda: len(sending.sender.requests), "the request")
        return taken

    sending.record(1)
    monkeypatch.setattr(sending.ring, "drain", drain_while_the_job_goes_on)
    sending.flush()
    sending.flush()
    assert [kind for kind, _ in sending.agents[0].frames()] == [
        wire.HELLO, *[wire.EVENTS] * 4, wire.REQUEST
    ]  # fmt: skip
    sending.sender._give_up()
