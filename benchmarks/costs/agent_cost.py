"""The agent's CPU and memory, beside a steady job and when it is fed: `make benchmark NAME=agent_cost`."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.costs.processes import Asked, answer
from benchmarks.costs.sections import Cell, Section, Table
from jaxobs.config import Settings
from jaxobs.model.clock import NANOSECONDS, now
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
WARM_UP_SECONDS = 6.0
STEADY_SECONDS = 15.0

_STEADY = f"""A real loop of some 650 steps a second at the defaults, but without profiler windows, which come when they
like, and each takes the agent as long as many turns; its agent's CPU over {STEADY_SECONDS:.0f} s."""

_FED = f"""An agent that is a real process too, but fed by us as a job would feed it, in frames of {FRAME} events:
{STEPS} steps; {2 * FUNCTIONS} series; one function with {EXECUTABLES} shapes. CPU is a step's, or a snapshot's with its
steps; the snapshot is the fastest of {ROUNDS}."""


def send_steps(agent: AgentProcess, first: int, count: int) -> None:
    """Steps of 1 ms of a watched loop, as the probe sends plain ones."""
    at = now()
    for frame in range(first, first + count, FRAME):
        rows: StepRows = []
        for number in range(frame, min(frame + FRAME, first + count)):
            began = at + (number - first) * 1_000_000
            rows += ["train", number, began, began + 1_000_000, 0, 5_000, 20_000, 256, None, 1, 1]
        agent.send([rows])


def fed(events: list[Event], count: int, rounds: int, **settings: int) -> tuple[float, str, str]:
    """An agent that is sent events, then so many steps and a request for a snapshot, in rounds.

    CPU seconds of one, the fastest snapshot, resident memory after it.
    """
    os.environ["OTEL_EXPORTER_PROMETHEUS_PORT"] = "0"
    agent = AgentProcess(interval=Settings().interval, **settings)
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
    return cpu, f"{min(times):.2f} s", f"{after['resident_bytes'] / 2**20:.0f} MiB"


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


def steady(scrape_every: float) -> tuple[float, float]:
    """Milliseconds of the agent's CPU each second beside a loop, and its steps a second. Runs in a process of its own."""
    import jax

    import jaxobs

    over = threading.Event()
    with jaxobs.instrument(profile_budget_ratio=0.0) as observer:
        step = observer.watch(jax.jit(lambda weights: (weights * 0.999, weights.sum())))
        weights = run_steps(observer, step, jax.numpy.ones((32, 32)), WARM_UP_SECONDS)[0]
        document = observer.snapshot()
        agent, address = document["agent"]["pid"], document["process"]["address"]

        def scrape() -> None:
            while not over.wait(scrape_every):
                urllib.request.urlopen(address).read()

        if scrape_every:
            threading.Thread(target=scrape).start()
        before, began = scheduled_seconds(agent), time.monotonic()
        _, count = run_steps(observer, step, weights, STEADY_SECONDS)
        took = time.monotonic() - began
        spent = scheduled_seconds(agent) - before
        over.set()
    return 1e3 * spent / took, count / took


def scheduled_seconds(pid: int) -> float:
    """Of all threads of a process, by the scheduler, which counts nanoseconds."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / NANOSECONDS


def run_steps(observer: Any, step: Any, weights: Any, seconds: float) -> tuple[Any, int]:
    """Steps that leave the processors to others most of the time."""
    until, count = time.monotonic() + seconds, 0
    for count in observer.steps(itertools.count(1), examples=256):  # noqa: B007  # the last is how many there were
        weights, loss = step(weights)
        observer.record(loss=loss)
        time.sleep(0.0013)
        if time.monotonic() >= until:
            break
    return weights, count


def table_of_steady() -> Table:
    """Never scraped, and scraped each five seconds."""
    rows: list[list[Cell]] = []
    for scrape_every in (0.0, 5.0):
        with Asked(__name__, str(scrape_every)) as process:
            spent, rate = process.hear()
        scraped = f"each {scrape_every:g} s" if scrape_every else "never"
        rows.append([scraped, f"{rate:.0f}", f"{spent:.1f} ms"])
    return Table("A steady job", _STEADY, ("scraped", "steps a second", "CPU a second"), rows)


def measure() -> Section:
    """The steady job, and agents that are fed."""
    cpu, *others = fed([], STEPS, 1)
    rows: list[list[Cell]] = [[f"{STEPS} steps", f"{1e6 * cpu / STEPS:.1f} µs a step", *others]]
    cpu, *others = fed(list(compiles_of_functions()), FRAME, ROUNDS, series_limit=3 * FUNCTIONS * 30)
    rows.append([f"{2 * FUNCTIONS} series", f"{1e3 * cpu:.0f} ms", *others])
    cpu, *others = fed(list(one_function_for_each_shape()), 20, ROUNDS)
    rows.append([f"{EXECUTABLES} executables", f"{1e3 * cpu:.0f} ms", *others])
    return Section(
        "The agent", [table_of_steady(), Table("Fed", _FED, ("with", "CPU", "snapshot", "resident"), rows)]
    )


if __name__ == "__main__":
    answer(steady(float(sys.argv[1])))
