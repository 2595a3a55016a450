"""Memory that a tool adds to a job, and how long the job takes to end: `make benchmark NAME=memory_and_exit`."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from benchmarks.beside import free_port
from benchmarks.costs.peers import TOOLS, missing
from benchmarks.costs.processes import Asked, family, own_and_beside
from benchmarks.costs.sections import Cell, Measured, Section, Table, middle, more

ROUNDS = 5
TRAIN_SECONDS, PACE = 5.0, 20.0
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"

_MEMORY = f"""A job that has trained a small model for {TRAIN_SECONDS:.0f} s at {PACE:.0f} steps a second, less the
same job without a tool; {ROUNDS} rounds. *Beside* is what the tool runs in processes of its own. Pages shared with other
processes count too."""

_EXIT = f"""From the last line of the script until its process is gone, the tool's closing call included; {ROUNDS}
rounds. An endpoint (`{ENDPOINT}`) that *refuses* does not listen; a *silent* one accepts and never answers."""

COLUMNS = ("tool", "resident, more in the job", "resident, beside")


@contextlib.contextmanager
def endpoints() -> Iterator[dict[str, dict[str, str]]]:
    """Settings by what the endpoint does: there is none, nobody listens at its port, or it accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as silent:
        ports = {"silent": silent.getsockname()[1], "refuses": free_port()}
        yield {"": {}} | {how: {ENDPOINT: f"http://127.0.0.1:{port}"} for how, port in ports.items()}


class Job(NamedTuple):
    """A job with a tool; with an endpoint that is silent or refuses, if with any."""

    title: str
    tool: str
    endpoint: str = ""


def jobs() -> list[Job]:
    """One for every tool that is installed; first the plain one."""
    found = [
        Job("nothing", "plain"),
        Job("nothing, again (control)", "plain"),
        Job("jaxobs", "jaxobs"),
        Job("jaxobs, OTLP endpoint refuses", "jaxobs", "refuses"),
        Job("jaxobs, OTLP endpoint silent", "jaxobs", "silent"),
    ]
    for name, peer in TOOLS.items():
        if name == "opentelemetry" and not peer.missing():
            found += [Job(f"{peer.title}, endpoint {how}", name, how) for how in ("refuses", "silent")]
        elif not peer.missing():
            found.append(Job(peer.title, name))
    return found


Figures = Mapping[str, float]


def memory_of(pid: int) -> Figures:
    """Bytes in memory, those shared with other processes too."""
    resident, beside = own_and_beside(family(pid), lambda process: process.memory_info().rss)
    return {"resident": resident, "resident beside": beside}


def one_round(every: list[Job], chance: random.Random) -> dict[Job, Figures]:
    """All jobs at once; they end one after another. Bytes of each, and the seconds of its end."""
    found: dict[Job, Figures] = {}
    with contextlib.ExitStack() as opened:
        settings = opened.enter_context(endpoints())
        words = (str(TRAIN_SECONDS), str(PACE))
        asked = {
            job: opened.enter_context(
                Asked("benchmarks.costs.job", job.tool, *words, **settings[job.endpoint])
            )
            for job in every
        }
        for process in asked.values():
            while process.hear() != "ready":
                pass
        memory = {job: memory_of(process.process.pid) for job, process in asked.items()}
        for job in chance.sample(every, len(every)):
            last_line = asked[job].ask()
            asked[job].process.wait()
            found[job] = {**memory[job], "exit": time.monotonic() - last_line}
    return found


def measure() -> Section:
    """The rounds, and a table of each kind."""
    every, chance = jobs(), random.Random(0)
    plain = every[0]
    rounds = [one_round(every, chance) for _ in range(ROUNDS)]

    def of(job: Job, part: str) -> list[float]:
        return [found[job][part] for found in rounds]

    def beside(job: Job, part: str) -> Cell:
        return middle(of(job, part), "B") if any(of(job, part)) else "—"

    def extra(job: Job, part: str, unit: str) -> Measured:
        return more(of(job, part), of(plain, part), unit)

    memory: list[list[Cell]] = [
        [job.title, extra(job, "resident", "B"), beside(job, "resident beside")] for job in every[1:]
    ]
    exits: list[list[Cell]] = [
        [job.title, middle(of(job, "exit")), "—" if job is plain else extra(job, "exit", "s")]
        for job in every
    ]
    tables = [
        Table("Memory", _MEMORY, COLUMNS, memory),
        Table("Exit", _EXIT, ("tool", "until the process is gone", "more than without a tool"), exits),
    ]
    return Section("Memory and exit", tables, (), missing(TOOLS))
