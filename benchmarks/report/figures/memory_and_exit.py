"""Memory that a tool adds to a job, and how long the job takes to end: `make benchmark NAME=memory_and_exit`."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.beside import free_port
from benchmarks.paired import median, paired_difference
from benchmarks.report.peers import TOOLS
from benchmarks.report.processes import family, resident, total, unshared
from benchmarks.report.results import Cell, Measured, Section, Table
from benchmarks.report.turns import Asked

ROUNDS = 5
TRAIN_SECONDS, PACE = 5.0, 20.0
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"

_MEMORY = f"""A job that has trained a small model for {TRAIN_SECONDS:.0f} s at {PACE:.0f} steps a second, less the
same job without a tool in the same round; {ROUNDS} rounds, in each of which all the jobs are there at the same time.
*Resident* counts pages shared with other processes too, *unshared* only those that nobody else uses, so that
libraries which several of these jobs have loaded are in the first and not in the second. *Beside* is what the tool
runs in processes of its own."""

_EXIT = f"""From the last line of the script until its process is gone, one job at a time, the tool's own closing call
included where it has one (`close()`, `end_run()`, `finish()`); {ROUNDS} rounds, the same jobs as above, each after
another half second of training. Where an endpoint *refuses*, nobody listens at the port of `{ENDPOINT}`; where it is
*silent*, connections are accepted and never answered."""


class Ended(NamedTuple):
    """Bytes, and the seconds of the end."""

    resident: float
    unshared: float
    resident_beside: float
    unshared_beside: float
    exit: float


class Case(NamedTuple):
    """A job; with an endpoint that is silent or refuses, if with any."""

    title: str
    tool: str
    endpoint: str = ""


def cases() -> dict[str, Case]:
    """Every tool that is installed, by name."""
    ours = {
        "plain": Case("nothing", "plain"),
        "again": Case("nothing, again (control)", "plain"),
        "jaxobs": Case("jaxobs", "jaxobs"),
        "refused": Case("jaxobs, OTLP endpoint refuses", "jaxobs", "refuses"),
        "silent": Case("jaxobs, OTLP endpoint silent", "jaxobs", "silent"),
    }
    peers = {name: Case(peer.title, name) for name, peer in TOOLS.items() if not peer.missing()}
    opentelemetry = peers.pop("opentelemetry", None)
    if opentelemetry is not None:
        for endpoint in ("refuses", "silent"):
            title = f"{opentelemetry.title}, endpoint {endpoint}"
            peers[f"opentelemetry {endpoint}"] = Case(title, "opentelemetry", endpoint)
    return ours | peers


def one_round(every: Mapping[str, Case], chance: random.Random) -> dict[str, Ended]:
    """All jobs at once; they end one after another."""
    found = {}
    with contextlib.ExitStack() as opened:
        silent = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
        ports = {"silent": silent.getsockname()[1], "refuses": free_port()}
        jobs = {}
        for name, case in every.items():
            environment = {ENDPOINT: f"http://127.0.0.1:{ports[case.endpoint]}"} if case.endpoint else {}
            job = Asked("benchmarks.report.job", case.tool, str(TRAIN_SECONDS), str(PACE), **environment)
            jobs[name] = opened.enter_context(job)
        for job in jobs.values():
            while job.hear() != "ready":
                pass
        memory = {name: _memory(job.process.pid) for name, job in jobs.items()}
        for name in chance.sample(list(jobs), len(jobs)):
            last_line = jobs[name].ask()
            jobs[name].process.wait()
            found[name] = Ended(*memory[name], time.monotonic() - last_line)
    return found


def _memory(pid: int) -> tuple[float, float, float, float]:
    job, beside = family(pid)
    return resident(job), unshared(job), total(beside, resident), total(beside, unshared)


def measure() -> Section:
    """The rounds, and a table of each kind."""
    every, chance = cases(), random.Random(0)
    rounds = [one_round(every, chance) for _ in range(ROUNDS)]

    def of(name: str, part: str) -> list[float]:
        return [getattr(found[name], part) for found in rounds]

    def more(name: str, part: str, unit: str) -> Measured:
        return Measured(paired_difference(of(name, part), of("plain", part)), unit)

    def beside(name: str) -> list[Cell]:
        parts: Sequence[list[float]] = [of(name, part) for part in ("resident_beside", "unshared_beside")]
        return [Measured(median(part), "B") if any(part) else "—" for part in parts]

    memory: list[list[Cell]] = [
        [case.title, more(name, "resident", "B"), more(name, "unshared", "B"), *beside(name)]
        for name, case in every.items()
        if name != "plain"
    ]
    exits: list[list[Cell]] = [
        [
            case.title,
            Measured(median(of(name, "exit")), "s"),
            "—" if name == "plain" else more(name, "exit", "s"),
        ]
        for name, case in every.items()
    ]
    columns = (
        "tool",
        "resident, more in the job",
        "unshared, more in the job",
        "resident, beside",
        "unshared, beside",
    )
    tables = [
        Table("Memory", _MEMORY, columns, memory),
        Table("Exit", _EXIT, ("tool", "until the process is gone", "more than without a tool"), exits),
    ]
    missing = [reason for peer in TOOLS.values() if (reason := peer.missing())]
    return Section("Memory and exit", tables, (), missing)
