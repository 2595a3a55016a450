"""The agent's CPU and memory: beside a steady job, for 100 000 steps, with 20 000 series and with 10 000 executables.

The steady job is a real loop. In the others the agent is a real process too, but fed by us as a job would feed it, in
frames of 1 000 events. `python -m benchmarks.agent_cost steady` measures the first alone.
"""

import itertools
import os
import select
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from jaxobs.config import Settings
from jaxobs.flow import wire
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, now
from jaxobs.model.events import (
    ROW_LENGTH,
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
FUNCTIONS = 10_000
EXECUTABLES = 10_000
FRAME = 1_000
ROUNDS = 5
WARM_UP_SECONDS = 6.0
STEADY_SECONDS = 15.0


class Agent:
    """One agent process and what it says of its own cost."""

    def __init__(self, series_limit: int) -> None:
        os.environ["OTEL_EXPORTER_PROMETHEUS_PORT"] = "0"
        pipe, _ = start_agent_process()
        self._pipe = socket.socket(fileno=os.dup(pipe.fileno()))
        self._pipe.setblocking(True)
        pipe.close()
        self._frames = wire.Frames()
        plain = Settings(series_limit=series_limit).to_dict()
        hello = {
            "settings": plain | {"rank_on_host": 0, "in_kubernetes": False},
            "resource": {"service.name": "benchmark", "process.pid": str(os.getpid())},
            "clock": tuple(ClockAnchor.read()),
            "began": now(),
        }
        self._pipe.sendall(wire.frame(wire.HELLO, hello))

    def send(self, events: list[Event]) -> None:
        for first in range(0, len(events), FRAME):
            self._pipe.sendall(wire.events_frame(events[first : first + FRAME])[0])

    def send_steps(self, rows: StepRows) -> None:
        """As the probe sends plain steps."""
        for first in range(0, len(rows), FRAME * ROW_LENGTH):
            self._pipe.sendall(wire.events_frame([rows[first : first + FRAME * ROW_LENGTH]])[0])

    def snapshot(self) -> tuple[dict[str, Any], float]:
        """The document, and the seconds until it was there."""
        began = time.perf_counter()
        self._pipe.sendall(wire.frame(wire.REQUEST, (1, now() + 10 * NANOSECONDS)))
        while True:
            select.select([self._pipe], [], [])
            for kind, body in self._frames.feed(self._pipe.recv(1 << 20)):
                if kind == wire.REPLY:
                    return body[1], time.perf_counter() - began

    def cost(self) -> tuple[float, float]:
        """CPU seconds and resident mebibytes so far."""
        agent = self.snapshot()[0]["agent"]
        return agent["cpu_seconds"]["agent"], agent["resident_bytes"] / 2**20

    def close(self) -> None:
        self._pipe.close()


def steps(first: int, count: int) -> StepRows:
    """Steps of 1 ms of a watched loop, as the probe notes them."""
    at = now()
    rows: StepRows = []
    for number in range(first, first + count):
        began = at + (number - first) * 1_000_000
        rows += ["train", number, began, began + 1_000_000, 0, 5_000, 20_000, 256, None, 1, 1]
    return rows


def one_function_for_each_shape() -> list[Event]:
    """A watched function that is compiled, run and timed with 10 000 shapes."""
    events: list[Event] = [FunctionWatched(-1, "f", "", now())]
    for number in range(1, EXECUTABLES + 1):
        at = now()
        events.append(CompilePhaseEnded("f", "backend", 1, at, at + 1_000, 1_000, True))
        events.append(Compilation("f", number, 1, at + 1_000, (), "off", None, (), None))
        events.append(ExecutableCreated(number, "f", at, None, "left out here", (("argument", 64),), 1))
        events.append(FunctionCalled(number, 1, at))
        events.append(ExecutableRan(number, 1e-3, 1e-5, at))
    return events


def steady(scrape_every: float | None) -> tuple[float, float]:
    """Milliseconds of the agent's CPU each second beside a loop at its defaults, and the loop's steps a second.

    Without profiler windows, which come when they like, and each takes the agent as long as many turns.
    """
    os.environ |= {"OTEL_EXPORTER_PROMETHEUS_PORT": "0", "JAX_PLATFORMS": "cpu"}
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

        if scrape_every is not None:
            threading.Thread(target=scrape).start()
        before, began = cpu_seconds(agent), time.monotonic()
        _, count = run_steps(observer, step, weights, STEADY_SECONDS)
        spent, elapsed = cpu_seconds(agent) - before, time.monotonic() - began
        over.set()
    return 1e3 * spent / elapsed, count / elapsed


def cpu_seconds(pid: int) -> float:
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


def main() -> None:
    """Print the figures."""
    for scrape_every in (None, 5.0):
        spent, rate = steady(scrape_every)
        scraped = "never scraped" if scrape_every is None else f"scraped each {scrape_every:g} s"
        print(f"steady job, {rate:.0f} steps/s, {scraped}: {spent:.1f} ms CPU each second", flush=True)
    if sys.argv[1:] == ["steady"]:
        return
    agent = Agent(series_limit=2_000)
    agent.send([BackendFound("cpu", ((0, "cpu", "0"),), 0, 1, "", "", now())])
    agent.send_steps(steps(0, FRAME))
    before, resident = agent.cost()
    agent.send_steps(steps(FRAME, STEPS))
    after, grown = agent.cost()
    agent.close()
    print(f"agent, idle: {resident:.0f} MiB resident, {before:.2f} s CPU to start")
    print(f"{STEPS:,} steps: {after - before:.2f} s CPU, {1e6 * (after - before) / STEPS:.1f} µs a step")
    print(f"resident after them: {grown:.0f} MiB")

    agent = Agent(series_limit=3 * FUNCTIONS * 30)
    compiles: list[Event] = []
    for number in range(FUNCTIONS):
        name, at = f"function_{number}", now()
        compiles.append(CompilePhaseEnded(name, "backend", 1, at, at + 1_000, 1_000, True))
        compiles.append(Compilation(name, number, 1, at + 1_000, (), "off", None, (), None))
    agent.send(compiles)
    times = []
    for turn in range(ROUNDS):
        agent.send_steps(steps(turn * FRAME, FRAME))
        times.append(agent.snapshot()[1])
    _, resident = agent.cost()
    agent.close()
    print(
        f"{2 * FUNCTIONS:,} series: {FRAME:,} steps and a snapshot in {min(times):.2f} s, {resident:.0f} MiB"
    )

    agent = Agent(series_limit=2_000)
    agent.send([BackendFound("cpu", ((0, "cpu", "0"),), 0, 1, "", "", now()), *one_function_for_each_shape()])
    agent.snapshot()
    before, _ = agent.cost()
    times = []
    for turn in range(ROUNDS):
        agent.send_steps(steps(turn * 20, 20))
        times.append(agent.snapshot()[1])
    after, resident = agent.cost()
    agent.close()
    spent = (after - before) / (ROUNDS + 1)
    print(
        f"{EXECUTABLES:,} executables: a snapshot in {1e3 * min(times):.0f} ms, {1e3 * spent:.0f} ms of CPU, "
        f"{resident:.0f} MiB"
    )


if __name__ == "__main__":
    main()
