"""Memory that a tool adds to a job, and how much later the job ends with it: `make benchmark NAME=memory_and_exit`."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from benchmarks.beside import free_port
from benchmarks.costs.peers import TOOLS, missing
from benchmarks.costs.processes import Asked, family, own_and_beside
from benchmarks.costs.sections import Section, middle, more, table
from benchmarks.paired import take_turns

ROUNDS = 10
TRAIN_SECONDS, PACE = 5.0, 20.0
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"

_MEMORY = f"""A job that has trained a small model for {TRAIN_SECONDS:.0f} s at {PACE:.0f} steps a second, less the
same job without a tool; {ROUNDS} rounds. *Beside* is what the tool runs in processes of its own. Pages shared with other
processes count too."""

_EXIT = f"""From the last line of the script until its process is gone, and its output's end, the tool's closing call
included; {ROUNDS} rounds, in turns. An endpoint (`{ENDPOINT}`) that *refuses* does not listen; a *silent* one accepts and
never answers."""


@contextlib.contextmanager
def endpoints() -> Iterator[dict[str, dict[str, str]]]:
    """Settings by what the endpoint does: there is none, nobody listens at its port, or it accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as silent:
        ports = {"silent": silent.getsockname()[1], "refuses": free_port()}
        yield {"": {}} | {how: {ENDPOINT: f"http://127.0.0.1:{port}"} for how, port in ports.items()}


class Job(NamedTuple):
    """A job with a tool; with an endpoint that is silent or refuses, if with any; under `jaxobs run` if launched."""

    title: str
    tool: str
    endpoint: str = ""
    launched: bool = False
    seconds: float = TRAIN_SECONDS


def jobs() -> list[Job]:
    """One for every tool that is installed; first the plain one."""
    found = [
        Job("nothing", "plain"),
        Job("nothing, again (control)", "plain"),
        Job("jaxobs", "jaxobs"),
        Job("`jaxobs run`", "plain", launched=True),
        Job("jaxobs, OTLP endpoint refuses", "jaxobs", "refuses"),
        Job("jaxobs, OTLP endpoint silent", "jaxobs", "silent"),
    ]
    for name, peer in TOOLS.items():
        if name == "opentelemetry" and not peer.missing():
            found += [Job(f"{peer.title}, endpoint {how}", name, how) for how in ("refuses", "silent")]
        elif not peer.missing():
            found.append(Job(peer.title, name))
    return found


def run(job: Job, settings: Mapping[str, str]) -> tuple[float, float, float]:
    """Bytes in memory of a job and of what is beside it, those shared with other processes too; seconds of its end."""
    command = ["benchmarks.costs.job", job.tool, str(job.seconds), str(PACE)]
    if job.launched:
        command = ["jaxobs", "run", "--", "-m", *command]
    with Asked(*command, **settings) as asked:
        while asked.hear() != "ready":
            pass
        own, beside = own_and_beside(family(asked.process.pid), lambda process: process.memory_info().rss)
        last_line = asked.ask()
        assert asked.process.stdout is not None
        asked.process.stdout.read()
        if status := asked.process.wait():
            raise SystemExit(f"{' '.join(command)} ended with status {status}")
        return own, beside, time.monotonic() - last_line


def measure() -> Section:
    """The rounds, and a table of each kind."""
    with endpoints() as settings:
        found = take_turns({job: partial(run, job, settings[job.endpoint]) for job in jobs()}, ROUNDS)
    columns = {job: tuple(zip(*figures, strict=True)) for job, figures in found.items()}
    (plain, (plain_bytes, _, plain_exit)), *others = columns.items()
    memory = [
        [job.title, more(own, plain_bytes, "B"), middle(beside, "B") if any(beside) else "—"]
        for job, (own, beside, _) in others
    ]
    exits = [[plain.title, middle(plain_exit), "—", "—"]]
    for job, (_, _, ended) in others:
        longest = max(one - other for one, other in zip(ended, plain_exit, strict=True))
        exits.append([job.title, middle(ended), more(ended, plain_exit), f"{longest:.2f} s"])
    of_exit = ("tool", "until the process is gone", "more than without a tool", "at most")
    tables = [
        table("Memory", _MEMORY, ("tool", "resident, more in the job", "resident, beside"), memory),
        table("Exit", _EXIT, of_exit, exits),
    ]
    return Section("Memory and exit", tables, {}, missing(TOOLS))
