"""Collector `nccl`: which ranks NCCL misses, and which are behind in its collectives, as its RAS service tells.

Each process of a job has a thread of NCCL's that watches the others over sockets of its own, and answers clients at
localhost:28028 (NCCL_RAS_ADDR), also while a collective hangs. What one is asked it asks all others, so one agent alone
asks: that of the first process. The service is there since NCCL 2.24 and answers in JSON since 2.28.7.

Written from NVIDIA's user guide ("RAS") and NCCL 2.30.7 (src/ras/client.cc, client_support.cc), tried on a server that
speaks as they say, and never on a live NCCL. What they tell, and is heeded here:

- All processes of a host listen at one port (SO_REUSEPORT), those of the user's other jobs too: an answer that does not
  name the job's own process is another job's.
- Before its first collection a process may not have reached all others: a rank is missing once two answers in a row
  say so.
- Where NCCL counts no operation (all of a communicator's counts are 0), nobody is behind that is known.
- An answer may be cut (reported at 256 KiB, of 512 ranks): it is then no JSON, and nothing of it is shown.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from jaxobs.model.events import Measured
from jaxobs.model.metrics import metric
from jaxobs.plugin.base import Collector
from jaxobs.plugin.fields import Fields, Query, Sample, metrics_of, why_not_used
from jaxobs.plugin.protocol import Agent

RANKS = metric("jaxobs_nccl_ranks{communicator}", "Ranks of a communicator of NCCL's")
MISSING = metric(
    "jaxobs_nccl_missing_ranks{communicator}",
    "Ranks of it that did not answer NCCL's watchers, twice in a row",
)
OPERATIONS = metric(
    "jaxobs_nccl_operations_total{communicator}",
    "Collectives that the rank furthest ahead has begun, as NCCL counts",
)
BEHIND = metric(
    "jaxobs_nccl_operations_behind{communicator,member,host,pid}",
    "Collectives by which a member is behind the one furthest ahead",
)
MISSING_INFO = metric(
    "jaxobs_nccl_missing_info{communicator,member,host,pid}",
    "1 for members that did not answer NCCL's watchers, twice in a row",
)

SECONDS_APART = 15.0
"""Between two questions. Each makes every process of the job answer, over sockets on the host's network."""

ANSWER_SECONDS = 3
"""After which NCCL answers without the processes that did not (TIMEOUT; its own default is 5), in whole seconds."""

MORE_SECONDS = 4.0
"""Longest wait for each further line or part of an answer; NCCL's own client waits 1 to 2 s more than NCCL itself."""

MAX_BYTES = 2**24
"""Largest answer read: a rank takes 700 bytes in each communicator, so this is 20 000 of them."""

MAX_COMMUNICATORS, MAX_NAMED = 16, 8
"""Communicators that get series, the largest first, and members of each that are named."""

CONVERSATION = (
    ("CLIENT PROTOCOL 2", "SERVER PROTOCOL"),
    (f"TIMEOUT {ANSWER_SECONDS}", "OK"),
    ("SET FORMAT json", "OK"),
)
"""What is said before the question, and how each answer begins."""


class Member(NamedTuple):
    """A rank of a communicator, and the operations that it has begun, as far as it answered."""

    number: int
    host: str
    pid: int
    operations: int = 0


class Communicator(NamedTuple):
    """A communicator as NCCL tells it: its ranks that answered, and those that did not."""

    name: str
    size: int
    members: tuple[Member, ...]
    missing: tuple[Member, ...]


def read_answer(text: str) -> list[Communicator]:
    """The communicators of an answer in JSON, the largest first. Raises ValueError where it is none."""
    try:
        found = [_communicator(each) for each in json.loads(text)["communicators"]]
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise ValueError(f"its answer of {len(text)} characters is cut or no JSON ({problem})") from None
    return sorted(found, key=lambda each: each.size, reverse=True)


def _communicator(told: dict[str, Any]) -> Communicator:
    answered = (_member(rank, sum(map(int, rank["collective_counts"].values()))) for rank in told["ranks"])
    missing = (_member(rank) for rank in told["missing_ranks"])
    return Communicator(str(told["hash"]), int(told["size"]), tuple(answered), tuple(missing))


def _member(rank: dict[str, Any], operations: int = 0) -> Member:
    return Member(int(rank["rank"]), str(rank["host"]), int(rank["pid"]), operations)


def ask(address: tuple[str, int]) -> str:
    """What the service tells of the job. Raises OSError, and ValueError where it does not speak as it should."""
    with socket.create_connection(address, MORE_SECONDS) as connection, connection.makefile("rwb") as lines:
        connection.settimeout(ANSWER_SECONDS + MORE_SECONDS)
        for command, expected in CONVERSATION:
            lines.write(f"{command}\n".encode())
            lines.flush()
            said = lines.readline(4096).decode("utf-8", "replace").strip()
            if not said.startswith(expected):
                raise ValueError(f"{command}: {said[:100] or 'no answer'}")
        lines.write(b"STATUS\n")
        lines.flush()
        return lines.read(MAX_BYTES).decode("utf-8", "replace")


def address_of(text: str) -> tuple[str, int]:
    """Host and port of NCCL_RAS_ADDR, which may be `[::1]:28028`. Raises ValueError where there is no port."""
    host, _, port = text.rpartition(":")
    return host.strip("[]") or "localhost", int(port)


def _ranks(communicators: list[Communicator]) -> Iterator[Sample]:
    for each in communicators[:MAX_COMMUNICATORS]:
        yield RANKS, (each.name,), float(each.size)
        yield MISSING, (each.name,), float(len(each.missing))
        for member in each.missing[:MAX_NAMED]:
            yield MISSING_INFO, (each.name, *map(str, member[:3])), 1.0


def _operations(communicators: list[Communicator]) -> Iterator[Sample]:
    for each in communicators[:MAX_COMMUNICATORS]:
        furthest = max((member.operations for member in each.members), default=0)
        if furthest:  # else NCCL counts none
            yield OPERATIONS, (each.name,), float(furthest)
        behind = [member for member in each.members if member.operations < furthest]
        for member in sorted(behind, key=lambda member: member.operations)[:MAX_NAMED]:
            yield BEHIND, (each.name, *map(str, member[:3])), float(furthest - member.operations)


QUERIES: tuple[Query[list[Communicator]], ...] = (
    Query((RANKS, MISSING, MISSING_INFO), _ranks), Query((OPERATIONS, BEHIND), _operations)
)  # fmt: skip


class NcclCollector(Collector):
    """Asks NCCL's RAS service. Where none answers for this job it measures nothing, and `reason` says why."""

    metrics = metrics_of(QUERIES)
    interval = SECONDS_APART
    _agent: Agent

    def __init__(self) -> None:
        self._fields = Fields(QUERIES)
        self._missed: dict[str, tuple[Member, ...]] = {}
        """Those that did not answer the last time, by communicator."""

    def start(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterable[Measured]:
        self.reason = self._why_not()
        communicators: list[Communicator] = []
        if not self.reason:
            try:
                communicators = self._asked()
            except (OSError, ValueError) as error:
                self.reason = f"NCCL's RAS service: {error}"
        missed, self._missed = self._missed, {each.name: each.missing for each in communicators}
        again = [
            each._replace(missing=tuple(rank for rank in each.missing if rank in missed.get(each.name, ())))
            for each in communicators
        ]
        return self._fields.collect(again) if again else self._fields.withdraw()

    def _why_not(self) -> str:
        """Why the service is not asked; empty where it is."""
        told = self._agent.resource
        if why_not := why_not_used(told, {"gpu", "cuda"}, "NVIDIA GPU"):
            return why_not
        if told.get("jax.process_index", "0") != "0":
            return "the first process of the job asks for all"
        if os.environ.get("NCCL_RAS_ENABLE") == "0":
            return "NCCL_RAS_ENABLE=0 has turned it off"
        return ""

    def _asked(self) -> list[Communicator]:
        """The job's communicators. Raises OSError, and ValueError where the answer cannot be read."""
        found = read_answer(ask(address_of(os.environ.get("NCCL_RAS_ADDR") or "localhost:28028")))
        if not found:
            raise ValueError("there is no communicator yet")
        own = self._agent.resource.get("process.pid", "")
        if not any(str(member.pid) == own for each in found for member in each.members + each.missing):
            raise ValueError("another job answered, which shares its port (NCCL_RAS_ADDR gives each its own)")
        return found
