"""The agent's CPU and memory when it is fed as by a job: `make benchmark NAME=agent_cost`.

It is a real process, which gets frames of a thousand events: steps, many series, one function with many shapes. CPU is
that of all steps, or of a snapshot with its steps; the snapshot is the fastest of its rounds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from benchmarks.truths import Figure, Rows
from jaxobs.config import Settings
from jaxobs.model.clock import now
from jaxobs.model.events import (
    BackendFound,
    Compilation,
    CompilePhaseEnded,
    Event,
    ExecutableCreated,
    ExecutableRan,
    FunctionCalled,
    FunctionWatched,
    StepRows,
)
from tests.agent.beside import AgentProcess

STEPS = 100_000
FUNCTIONS = EXECUTABLES = 10_000
FRAME = 1_000
ROUNDS = 5


def send_steps(agent: AgentProcess, first: int, count: int) -> None:
    """Steps of 1 ms of a watched loop, as the probe sends plain ones."""
    at = now()
    for frame in range(first, first + count, FRAME):
        rows: StepRows = []
        for number in range(frame, min(frame + FRAME, first + count)):
            began = at + (number - first) * 1_000_000
            rows += ["train", number, began, began + 1_000_000, 0, 5_000, 20_000, 256, None, 1, 1]
        agent.send([rows])


def fed(events: list[Event], count: int, rounds: int, **settings: int) -> list[Figure]:
    """An agent that is sent events, then so many steps and a request for a snapshot, in rounds.

    What one round takes of the processor, the fastest snapshot, and the memory after it.
    """
    os.environ["OTEL_EXPORTER_PROMETHEUS_PORT"] = "0"
    agent = AgentProcess(**{"interval": Settings().interval, **settings})  # type: ignore[arg-type]  # settings alone
    agent.send([BackendFound("cpu", ((0, "cpu", "0"),), 0, 1, "", "", now())])
    for first in range(0, len(events), FRAME):
        agent.send(events[first : first + FRAME])
    before = agent.snapshot()["agent"]["cpu_seconds"]["agent"]
    times = []
    for number in range(rounds):
        send_steps(agent, number * count, count)
        began = time.perf_counter()
        after = agent.snapshot()["agent"]
        times.append(time.perf_counter() - began)
    agent.close()
    cpu = (after["cpu_seconds"]["agent"] - before) / rounds
    return [
        Figure("CPU", cpu, unit="s"),
        Figure("snapshot", min(times), unit="s"),
        Figure("resident", after["resident_bytes"], unit="B"),
    ]


def compiles_of_functions() -> Iterator[Event]:
    """Functions that were compiled once each."""
    for number in range(FUNCTIONS):
        name, at = f"function_{number}", now()
        yield CompilePhaseEnded(name, "backend", 1, at, at + 1_000, 1_000, True)
        yield Compilation(name, number, 1, at + 1_000, (), "off", None, (), None)


def one_function_for_each_shape() -> Iterator[Event]:
    """A watched function that is compiled, run and timed with each of its shapes."""
    yield FunctionWatched(-1, "f", "", now())
    for number in range(1, EXECUTABLES + 1):
        at = now()
        yield CompilePhaseEnded("f", "backend", 1, at, at + 1_000, 1_000, True)
        yield Compilation("f", number, 1, at + 1_000, (), "off", None, (), None)
        yield ExecutableCreated(number, "f", at, None, "left out here", (("argument", 64),), 1)
        yield FunctionCalled(number, 1, at)
        yield ExecutableRan(number, 1e-3, 1e-5, at)


def measure() -> Rows:
    """Many steps, many series, many executables."""
    yield f"{STEPS} steps", fed([], STEPS, 1)
    compiles = list(compiles_of_functions())
    yield f"{2 * FUNCTIONS} series", fed(compiles, FRAME, ROUNDS, series_limit=3 * FUNCTIONS * 30)
    yield f"{EXECUTABLES} executables", fed(list(one_function_for_each_shape()), 20, ROUNDS)
