"""Memory that a tool adds to a job, and how much later the job ends with it: `make benchmark NAME=memory_and_exit`.

The jobs train a small model and take turns, one of them without a tool. *Beside* is what the tool runs in processes of
its own; pages shared with other processes count too. The end is from the last line of the script until its process is
gone, and its output's end, the tool's closing call included. An endpoint that *refuses* does not listen; a *silent* one
accepts and never answers.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks.beside import free_port
from benchmarks.costs.peers import TOOLS, missing
from benchmarks.costs.processes import Asked, family, own_and_beside
from benchmarks.costs.sections import Section, Values, middle, more, table
from benchmarks.paired import take_turns

ROUNDS = 10
TRAIN_SECONDS, PACE = 5.0, 20.0
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


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


Found = dict[Job, tuple[Values, ...]]
"""Of each job what `run` gives, in each round."""


def measured(jobs: Sequence[Job], rounds: int) -> Found:
    """What is found of the jobs, in turns."""
    with endpoints() as settings:
        found = take_turns({job: partial(run, job, settings[job.endpoint]) for job in jobs}, rounds)
    return {job: tuple(zip(*figures, strict=True)) for job, figures in found.items()}


def later(ended: Values, plain: Values) -> float:
    """The most seconds by which a job ended later than the plain one of its round."""
    return max(one - other for one, other in zip(ended, plain, strict=True))


def exits(found: Found) -> str:
    """The table of their ends; the first job is the plain one."""
    (plain, (*_, plain_ended)), *others = found.items()
    rows = [[plain.title, middle(plain_ended), "—", "—"]]
    for job, (*_, ended) in others:
        rows.append(
            [job.title, middle(ended), more(ended, plain_ended), f"{later(ended, plain_ended):.2f} s"]
        )
    return table("Exit", ("tool", "until the process is gone", "more than without a tool", "at most"), rows)


def measure() -> Section:
    """The rounds, and a table of each kind."""
    found = measured(jobs(), ROUNDS)
    (_, (plain, *_)), *others = found.items()
    memory = [
        [job.title, more(own, plain, "B"), middle(beside, "B") if any(beside) else "—"]
        for job, (own, beside, _) in others
    ]
    columns = ("tool", "resident, more in the job", "resident, beside")
    return Section(
        "Memory and exit", [table("Memory", columns, memory), exits(found)], missing=missing(TOOLS)
    )
