"""The sender: wakes about once a second, takes the events out of the ring, and writes them to the agent.

It is the only user of the pipe on the job's side. Events that the pipe does not take stay in the ring, which drops its
oldest and counts them: an agent that hangs costs the job nothing. An agent that is gone is replaced by a new one, a
bounded number of times, which is sent what it must know.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxobs.flow import wire
from jaxobs.flow.pipe import WakeUp, ready
from jaxobs.flow.ring import Ring
from jaxobs.model.clock import NANOSECONDS, monotonic, now
from jaxobs.model.events import Event, ProbeReported
from jaxobs.plugin.guard import LIMITS, described, why_not_had
from jaxobs.plugin.threads import Flag, cpu_seconds
from jaxobs.probe.transport.agent_process import AgentProcess
from jaxobs.probe.transport.backlog import Retained
from jaxobs.vocabulary.words import State

RESTARTS = 3

EVENTS_A_FRAME = 1_000

CLOSE_SECONDS = 0.3
"""Seconds of the shutdown's time that are reserved for the agent's flush."""

LOOK_SECONDS = 0.2
"""Seconds between two checks, at the end, whether the agent is suspended: then it is not waited for."""


class Requests:
    """What is asked of the agent, by any thread, and what it answers; the sender's thread takes the frames."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.newest_values: dict[str, float] = {}
        """The flat values that the agent sent last, to log beside a loss."""
        self._wake = wake
        self._values_are_wanted = False
        self._values_asked_of = 0
        self._snapshots: deque[tuple[int, int]] = deque()
        self._numbers = itertools.count(1)
        self._awaited: dict[int, tuple[Flag, list[Any]]] = {}
        self.over = False
        """No agent will answer any more."""

    def __len__(self) -> int:
        """How many snapshots are asked for and not sent yet."""
        return len(self._snapshots)

    def __bool__(self) -> bool:
        """Whether anything is asked for that no agent was told of."""
        return bool(self._snapshots) or (self._values_are_wanted and not self._values_asked_of)

    def values(self) -> dict[str, float]:
        """A copy of the newest values that the caller may change: a few microseconds, and no lock.

        The first call asks the agent for them, at once and every two seconds from then on.
        """
        if not (self._values_are_wanted or self.over):
            self._values_are_wanted = True
            self._wake()
        return self.newest_values.copy()

    def snapshot(self, timeout: float) -> Any:
        """Ask at once for a snapshot, and return its document.

        None if it did not come within `timeout` seconds, or none will come any more.
        """
        came, answers = Flag(), list[Any]()
        number = next(self._numbers)
        self._awaited[number] = came, answers
        try:
            self._snapshots.append((number, now() + int(timeout * NANOSECONDS)))
            self._wake()
            if not self.over:  # looked at after it is awaited: `none_will_come` looks in the other order
                came.wait(timeout)
        finally:
            del self._awaited[number]
        return answers[0] if answers else None

    def arrived(self, number: int, answer: Any) -> None:
        """Take an answer; one that came too late for its request is dropped."""
        if (awaited := self._awaited.get(number)) is not None:
            came, answers = awaited
            answers.append(answer)
            came.set()

    def none_will_come(self) -> None:
        """End every wait, because the sender has given up."""
        self.over = True
        for came, _ in list(self._awaited.values()):
            came.set()

    def frames(self, agent: int, asked: int) -> bytes:
        """Frames for the agent of this number, from 1: of the first `asked` requests those that are still waited for.

        And once one for values if these are wanted.
        """
        frames = []
        if self._values_are_wanted and self._values_asked_of != agent:
            self._values_asked_of = agent
            frames.append(wire.frame(wire.VALUES, None))
        for _ in range(asked):
            number, until = self._snapshots.popleft()
            if now() < until:
                frames.append(wire.frame(wire.REQUEST, (number, until)))
        return b"".join(frames)


class Agents(NamedTuple):
    """The three functions by which the sender deals with agents."""

    connect: Callable[[], AgentProcess]
    """Starts an agent. Raises OSError where it cannot, and whatever a guard raises that forbids it."""
    greeting: Callable[[], dict[str, Any]]
    """Returns what each agent is sent first."""
    heard: Callable[[bytes, Any], None]
    """Handles (kind, body) of each frame that an agent sends, on the sender's thread."""


class Sender:
    """The sender. `gather` returns events made once a wake-up."""

    def __init__(
        self,
        ring: Ring,
        agents: Agents,
        gather: Callable[[], list[Event]],
        log: Callable[[str], None],
        interval: float,
    ) -> None:
        self._ring = ring
        self._agents = agents
        self._gather = gather
        self._log = log
        self._interval = interval
        self.retained = Retained()
        """What each new agent is sent; it may begin with events of an earlier observer."""
        self._unfolded: deque[int] = deque()
        """How many events each frame holds that the agent has not acknowledged as folded, without those that a new agent
        would be sent again: they are lost with the agent if it dies."""
        self._lost_with_agents = 0
        self._leaves = False
        """Whether the agent goes by itself, as one that is in the job's way: another would be, too."""
        self.agents = 0
        """How many agents have been started."""
        self._refused = 0
        self._reports = 0
        self._cpu, self._cpu_before = 0.0, cpu_seconds()  # the latter of an earlier observer's threads
        self._agent: AgentProcess | None = None
        self._agent_is_up = False
        self._unsent: deque[memoryview] = deque()
        self._frames = wire.Frames()
        self._wake_up: WakeUp | None = None
        self.requests = Requests(self._wake)
        self._finish: float | None = None
        self.last_is_wanted = True
        """Whether the end waits for the last snapshot also where the agent is still starting."""
        self.ending: State = "ended"
        self.listeners_restored = 0
        self.begun = Flag()
        """The first agent was started, or could not be."""

    def open(self) -> None:
        """Prepare for `run`, on the thread that starts it. Raises as `WakeUp` does where no socket can be had."""
        self._wake_up = WakeUp()

    def unsent_bytes(self) -> int:
        """Bytes that were taken out of the ring and are not written yet. May be called from any thread."""
        return sum(map(len, list(self._unsent)))

    def finish(self, timeout: float) -> None:
        """Let the sender end: it sends the rest, tells the agent that nothing follows, and waits `timeout` at most."""
        self._finish = monotonic() + timeout
        self._wake()

    def abandon(self) -> None:
        """Close this side's sockets without a message; where no thread can be started, and at the end."""
        if self._agent is not None:
            self._agent.pipe.close()
        if self._wake_up is not None:
            self._wake_up.close()

    def run(self) -> None:
        try:
            self._open()
            self.begun.set()
            next_flush = monotonic()
            while self._finish is None:
                self._listen(max(0.0, next_flush - monotonic()))
                if self.requests or monotonic() >= next_flush:
                    next_flush = monotonic() + self._interval
                    self._flush(self._interval)
            self._close(self._finish)
        except Exception as error:  # noqa: BLE001  # a thread's traceback on the job's console is nothing of the job's
            self._log(f"sending to the agent has ended: {described(error)}; nothing is observed any more")
        finally:
            self._give_up()
            self.abandon()
            self.begun.set()

    def _wake(self) -> None:
        if self._wake_up is not None:
            self._wake_up.ring()

    def _open(self) -> None:
        self.agents += 1
        self._frames = wire.Frames()
        self._unsent.clear()
        self._agent_is_up = False
        try:
            self._agent = self._agents.connect()
        except BaseException as error:  # noqa: BLE001  # of the system, or of a guard that forbids sockets or processes
            self._agent = None
            self._log(f"the agent could not be started: {why_not_had(error)}; nothing is observed")
            self._give_up()
            return
        self._unsent.append(memoryview(wire.frame(wire.HELLO, self._agents.greeting())))
        if retained := self.retained.events():
            self._unfolded.append(0)
            self._unsent.append(memoryview(wire.events_frame(retained)[0]))

    def _lost(self) -> None:
        if self._agent is None:
            return
        self._agent.pipe.close()
        self._agent.gone()
        why = "" if self._agent.has_started else f" before it had started (perhaps {LIMITS})"
        self._agent = None
        self._lost_with_agents += sum(self._unfolded)
        self._unfolded.clear()
        again = self.agents <= RESTARTS and self._finish is None and not self._leaves
        if self._finish is None:
            now_what = "it is started again" if again else "nothing is observed any more"
            self._log(f"the agent is gone{why}; {now_what}")
        if again:
            self._open()
        else:
            self._give_up()

    def _give_up(self) -> None:
        """End every wait for an answer or an address: no agent will send one."""
        self.requests.none_will_come()
        self._agents.heard(wire.ADDRESS, None)

    def _listen(self, timeout: float) -> None:
        """Sleep until the agent has sent something, a thread wakes this one, or `timeout` is over."""
        assert self._wake_up is not None
        if self._wake_up.is_lost():  # the job has closed what it did not know
            self._wake_up.close()
            self._wake_up = WakeUp()
        wake = self._wake_up.reading
        waited_for = [wake] if self._agent is None else [wake, self._agent.pipe]
        readable = ready(waited_for, [], timeout)
        if wake in readable:
            self._wake_up.heard()
        if self._agent is not None and self._agent.pipe in readable:
            self._hear()

    def _hear(self) -> None:
        assert self._agent is not None
        try:
            piece = self._agent.pipe.receive(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._lost()
            return
        for kind, body in self._frames.feed(piece):
            self._leaves = self._leaves or kind == wire.LAST
            if kind == wire.FOLDED:
                self._agent_is_up = True
                for _ in range(body):
                    self._unfolded.popleft()
            elif kind == wire.STARTED:
                self._agent.introduced(body)
            elif kind == wire.VALUES:
                self.requests.newest_values = body
            elif kind == wire.REPLY:
                self.requests.arrived(*body)
            else:
                self._agents.heard(kind, body)

    def _flush(self, patience: float) -> None:
        if self.requests.over:
            self._ring.drain()  # no agent will take it, and compiled modules among it are large
            return
        deadline = monotonic() + patience
        asked = len(self.requests)  # those that come later may follow steps that are not drained any more
        for event in self._gather():
            self._ring.emit(event)
        if not self._send(b"", deadline):
            return
        for _ in range(len(self._ring) // EVENTS_A_FRAME + 1):
            if not (chunk := self._ring.drain(EVENTS_A_FRAME)):
                break
            retained = self.retained.keep(chunk)
            light, traces = wire.payloads_apart(chunk)
            encoded, refused = wire.events_frame(light)
            self._refused += refused
            self._unfolded.append(max(0, wire.count(chunk) - refused - retained))
            self._unsent += map(memoryview, traces)
            if not self._send(encoded, deadline):
                return
        self._send(self._report() + self.requests.frames(self.agents, asked), deadline)

    def _report(self) -> bytes:
        """A frame of the sender's figures, which in a full ring would displace an uncounted event."""
        self._unfolded.append(1)
        self._reports += 1
        self._cpu = max(self._cpu, cpu_seconds() - self._cpu_before)
        emitted, dropped = self._ring.emitted() + self._reports, self._ring.dropped() + self._lost_with_agents
        report = ProbeReported(emitted, dropped, self._refused, self.listeners_restored, self._cpu, now())
        return wire.events_frame([report])[0]

    def _send(self, piece: bytes, deadline: float) -> bool:
        """Write everything; False if not done by the deadline. The rest is kept, since a frame must be completed."""
        unsent = self._unsent
        if piece:
            unsent.append(memoryview(piece))
        while unsent and self._agent is not None:
            try:
                sent = self._agent.pipe.send(unsent[0][: 1 << 20])
                if sent == len(unsent[0]):
                    unsent.popleft()
                else:
                    unsent[0] = unsent[0][sent:]
                continue
            except BlockingIOError:
                pass
            except OSError:
                self._lost()
                return False
            remaining = deadline - monotonic()
            if remaining <= 0 or self._need_not_wait():
                break
            patience = remaining if self._finish is None else min(remaining, LOOK_SECONDS)
            if ready([self._agent.pipe], [self._agent.pipe], patience):
                self._hear()
        return self._agent is not None and not unsent

    def _close(self, deadline: float) -> None:
        """Tell the agent that nothing follows, and wait for its last frame and the end of the pipe.

        An agent that is still starting finds in the pipe what was sent, and needs nobody to wait.
        """
        if self._agent is not None:
            self._agent.hasten()
        self._send(wire.frame(wire.ENDING, self.ending), deadline)
        self._flush(max(0.0, deadline - monotonic() - CLOSE_SECONDS))
        if self._agent is not None:
            self._lost_with_agents += wire.count(self._ring.drain())  # there is no time left for these
            finish = wire.frame(wire.FINISH, (max(0.1, deadline - monotonic()), self.ending))
            self._send(self._report() + finish, deadline)
        while monotonic() < deadline and self._agent is not None and not self._need_not_wait():
            if not (self._unsent or self._agent_is_up or self.last_is_wanted):
                break
            self._listen(min(LOOK_SECONDS, max(0.0, deadline - monotonic())))
        if self._agent is not None:
            self._agent.kill_if_stopped()  # it could not end by itself, and would stay for ever

    def _need_not_wait(self) -> bool:
        """Whether this is the end and the agent is suspended."""
        return self._finish is not None and self._agent is not None and self._agent.is_stopped()
