"""Memory that a tool adds to a job, and how much later the job ends with it: `make benchmark NAME=memory_and_exit`.

The jobs train a small model and take turns, one of them without a tool. *Beside* is what the tool runs in processes of
its own; pages shared with other processes count too. The end is from the last line of the script until its process is
gone, and its output's end, the tool's closing call included. An endpoint that *refuses* does not listen; a *silent* one
accepts and never answers.
"""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks.beside import free_port
from benchmarks.costs.peers import TOOLS, here
from benchmarks.costs.processes import Asked, family, own_and_beside
from benchmarks.paired import median, paired_difference, take_turns
from benchmarks.truths import Figure, Rows, interval

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


OURS = (
    Job("nothing", "plain"),
    Job("jaxobs", "jaxobs"),
    Job("`jaxobs run`", "plain", launched=True),
    Job("jaxobs, OTLP endpoint refuses", "jaxobs", "refuses"),
    Job("jaxobs, OTLP endpoint silent", "jaxobs", "silent"),
)
"""The first is the plain one."""


def jobs() -> list[Job]:
    """Ours, a control, and one for every tool that is installed; that of OpenTelemetry needs an endpoint."""
    tools = here(TOOLS).items()
    others = [Job(peer.title, name, "silent" if name == "opentelemetry" else "") for name, peer in tools]
    return [*OURS, Job("nothing, again (control)", "plain"), *others]


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


Values = Sequence[float]
Found = dict[Job, tuple[Values, ...]]
"""Of each job what `run` gives, in each round."""


def measured(jobs: Sequence[Job], rounds: int) -> Found:
    """What is found of the jobs, in turns."""
    with endpoints() as settings:
        found = take_turns({job: partial(run, job, settings[job.endpoint]) for job in jobs}, rounds)
    return {job: tuple(zip(*figures, strict=True)) for job, figures in found.items()}


def exits(ended: Values, plain: Values, most: float | None = None) -> Iterator[Figure]:
    """When a job ended, and how much later than the plain one of its round: at `most` so many seconds."""
    yield interval("until the process is gone", median(ended), "s")
    yield interval("more than without a tool", paired_difference(ended, plain), "s")
    latest = max(one - other for one, other in zip(ended, plain, strict=True))
    between = None if most is None else (-math.inf, most)
    yield Figure("more, at most", latest, between=between, unit="s")


def measure() -> Rows:
    """Memory and end of each; the first job is the plain one."""
    found = measured(jobs(), ROUNDS)
    plain, _, plain_ended = next(iter(found.values()))
    for job, (own, beside, ended) in found.items():
        memory = interval("resident, more in the job", paired_difference(own, plain), "B")
        yield job.title, [memory, interval("beside", median(beside), "B"), *exits(ended, plain_ended)]
