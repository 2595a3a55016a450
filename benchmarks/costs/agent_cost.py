"""The agent's CPU and memory, beside a steady job and when it is fed: `make benchmark NAME=agent_cost`."""

from __future__ import annotations

import itertools
import os
import select
import socket
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
from jaxobs.flow import wire
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, now
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
from jaxobs.probe.transport.agent_process import start_agent_process

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


class FedAgent:
    """One agent process and what it says of its own cost."""

    def __init__(self, series_limit: int = 2_000) -> None:
        os.environ["OTEL_EXPORTER_PROMETHEUS_PORT"] = "0"
        pipe, _ = start_agent_process()
        self._pipe = socket.socket(fileno=os.dup(pipe.fileno()))
        self._pipe.setblocking(True)
        pipe.close()
        self._frames = wire.Frames()
        settings = Settings(series_limit=series_limit).to_dict() | {"rank_on_host": 0, "in_kubernetes": False}
        resource = {"service.name": "benchmark", "process.pid": str(os.getpid())}
        hello = {
            "settings": settings,
            "resource": resource,
            "clock": tuple(ClockAnchor.read()),
            "began": now(),
        }
        self._pipe.sendall(wire.frame(wire.HELLO, hello))
        self.send([BackendFound("cpu", ((0, "cpu", "0"),), 0, 1, "", "", now())])

    def send(self, events: list[Event]) -> None:
        for first in range(0, len(events), FRAME):
            self._pipe.sendall(wire.events_frame(events[first : first + FRAME])[0])

    def send_steps(self, first: int, count: int) -> None:
        """Steps of 1 ms of a watched loop, as the probe sends plain ones."""
        at = now()
        for frame in range(first, first + count, FRAME):
            rows: StepRows = []
            for number in range(frame, min(frame + FRAME, first + count)):
                began = at + (number - first) * 1_000_000
                rows += ["train", number, began, began + 1_000_000, 0, 5_000, 20_000, 256, None, 1, 1]
            self._pipe.sendall(wire.events_frame([rows])[0])

    def snapshot(self) -> tuple[dict[str, Any], float]:
        """The document, and the seconds until it was there."""
        began = time.perf_counter()
        self._pipe.sendall(wire.frame(wire.REQUEST, (1, now() + 10 * NANOSECONDS)))
        while True:
            select.select([self._pipe], [], [])
            for kind, body in self._frames.feed(self._pipe.recv(1 << 20)):
                if kind == wire.REPLY:
                    return body[1], time.perf_counter() - began

    def fed(self, count: int, rounds: int) -> tuple[float, float, float]:
        """So many steps and a snapshot, in rounds: CPU seconds of one, the fastest snapshot, resident MiB after it."""
        before = self.snapshot()[0]["agent"]["cpu_seconds"]["agent"]
        times = []
        for number in range(rounds):
            self.send_steps(number * count, count)
            document, seconds = self.snapshot()
            times.append(seconds)
        agent = document["agent"]
        self._pipe.close()
        return (agent["cpu_seconds"]["agent"] - before) / rounds, min(times), agent["resident_bytes"] / 2**20


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
    rows: list[list[Cell]] = []
    cpu, snapshot, resident = FedAgent().fed(STEPS, 1)
    rows.append(
        [f"{STEPS} steps", f"{1e6 * cpu / STEPS:.1f} µs a step", f"{snapshot:.2f} s", f"{resident:.0f} MiB"]
    )
    agent = FedAgent(series_limit=3 * FUNCTIONS * 30)
    agent.send(list(compiles_of_functions()))
    cpu, snapshot, resident = agent.fed(FRAME, ROUNDS)
    rows.append(
        [f"{2 * FUNCTIONS} series", f"{1e3 * cpu:.0f} ms", f"{snapshot:.2f} s", f"{resident:.0f} MiB"]
    )
    agent = FedAgent()
    agent.send(list(one_function_for_each_shape()))
    cpu, snapshot, resident = agent.fed(20, ROUNDS)
    rows.append(
        [f"{EXECUTABLES} executables", f"{1e3 * cpu:.0f} ms", f"{snapshot:.2f} s", f"{resident:.0f} MiB"]
    )
    return Section(
        "The agent", [table_of_steady(), Table("Fed", _FED, ("with", "CPU", "snapshot", "resident"), rows)]
    )


if __name__ == "__main__":
    answer(steady(float(sys.argv[1])))
