"""Very much at once, and very often: what is lost is counted exactly, and nothing grows or waits for ever."""

from __future__ import annotations

import http.client
import re
import resource
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from jaxobs.model.clock import now
from jaxobs.model.events import BackendFound, Compilation
from tests.agent.beside import AgentProcess

MILLION = """
import pathlib
def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
print("running", flush=True)
sys.stdin.readline()
ring = obs._side.ring
for _ in obs.steps(range(100_000)): pass  # the ring is full
before, emitted, most = resident(), ring.emitted(), 0.0
for number in range(10):
    for _ in obs.steps(range(100_000)): pass
    most = max(most, resident() - before)
print("emitted", ring.emitted() - emitted >= 1_000_000, "grew", most < 30, flush=True)
print("burst", flush=True)
sys.stdin.readline()
deadline = time.monotonic() + 60
while True:
    told = obs.snapshot(5.0)["agent"]
    if told and len(ring) == 0:
        break
    assert time.monotonic() < deadline
obs.snapshot(60)
found = obs.snapshot(60)
steps, dropped = found["loops"]["train"]["steps"], found["agent"]["events_dropped"]
others = dropped - (1_100_000 - steps)  # reports of our threads were among what was dropped
exact = dropped == ring.dropped() + obs._side.sender._lost_with_agents
print("counted", steps > 0, 0 <= others < 5_000, exact, (steps, dropped, others))
"""


@pytest.mark.slow
@pytest.mark.fault(11)
def test_of_a_million_events_that_a_stopped_agent_does_not_take_each_is_counted(
    start: Callable[..., Any],
) -> None:
    job = start(MILLION, reads=True, JAXOBS_RING_CAPACITY="20000", JAXOBS_INTERVAL="0.2")
    job.wait_for("running")
    agent = job.agent()
    agent.process.suspend()
    job.say("burst")
    said = job.process.stdout.readline()
    assert said == "emitted True grew True\n", job.end().stderr
    job.wait_for("burst")
    agent.process.resume()
    job.say("read")
    outcome = job.end()
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("counted True True True "), outcome.stdout


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentProcess]:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    started = AgentProcess()
    yield started
    started.close()


@pytest.mark.fault(12)
def test_of_ten_thousand_functions_an_agent_shows_a_few_and_counts_the_rest(agent: AgentProcess) -> None:
    agent.send([BackendFound("cpu", ((0, "a device", "0"),), 0, 1, "0.10.2", "0.10.2", now())])
    for begin in range(0, 10_000, 500):
        agent.send([
            Compilation(f"function_{number}", number, now() - 1000, now(), (), "off", None, (), None)
            for number in range(begin, begin + 500)
        ])  # fmt: skip
    text = agent.metrics_when('jaxobs_compilations_total{function="__other__"}')
    deadline = time.monotonic() + 20
    while True:
        counts = re.findall(r'^jaxobs_compilations_total\{function="(\w+)"\} (\S+)$', text, re.MULTILINE)
        if sum(float(count) for _, count in counts) == 10_000:
            break
        assert time.monotonic() < deadline, counts
        text = agent.metrics()
    assert "__other__" in dict(counts)
    assert len(counts) < 100
    assert len([line for line in text.splitlines() if not line.startswith("#")]) < 3_000


MODEST = """
import jax
step = obs.watch(jax.jit(lambda x: x + 1))
for _ in obs.steps(range(20)): step(1.0)
obs.snapshot(60)
print("running", flush=True)
sys.stdin.readline()
def large(x, number):  # its module takes more to read than an agent has in hand
    for turn in range(300): x = jax.numpy.sin(x) + turn * number
    return x
for number in range(60):
    jax.jit(lambda x: large(x, number) if number % 20 == 0 else x * number)(1.0)
    for _ in obs.steps(range(500)): step(1.0)
    time.sleep(0.02)
print("trained", flush=True)
sys.stdin.readline()
for _ in obs.steps(range(20), loop="afterwards"): step(1.0)
deadline = time.monotonic() + 30
while "afterwards" not in (obs.snapshot(5.0)["loops"] or {}): assert time.monotonic() < deadline
print(obs.snapshot(60)["loops"]["afterwards"]["steps"])
"""


@pytest.mark.slow
@pytest.mark.fault(30)
def test_an_agent_that_runs_out_of_memory_costs_the_job_nothing(start: Callable[..., Any]) -> None:
    job = start(MODEST, reads=True, JAXOBS_INTERVAL="0.1")
    job.wait_for("running")
    agent = job.agent()
    # Of its data, and not of its addresses: each thread of an agent has some 64 MB of these reserved, which it may use.
    held = agent.process.memory_info().data
    resource.prlimit(agent.process.pid, resource.RLIMIT_DATA, (held, held))
    job.say("train")
    job.wait_for("trained")
    assert agent.is_gone_within(60), "the limit was none"
    job.say("go on")
    outcome = job.end()
    assert (outcome.status, outcome.stdout) == (0, "20\n"), outcome.stderr
    lines = outcome.stderr.splitlines()
    assert all(line.startswith("jaxobs: ") for line in lines), lines
    assert "jaxobs: the agent is gone; it is started again" in lines
    assert len(lines) <= 4


INTERRUPTS = """
import gc, signal, threading
class Emits:
    def __init__(self): self.me = self
    def __del__(self):
        obs.record(deleted=1.0)
        with obs.step(loop="finalizers"): pass
def handler(number, frame):
    obs.record(signals=2.0)
    with obs.phase("evaluation"), obs.step(loop="handlers"): pass
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
heap = [[number] for number in range(300_000)]  # a pass of the collector takes some milliseconds
while obs.address is None: time.sleep(0.1)
print(obs.address, flush=True)
until = time.monotonic() + 4
turns = 0
while time.monotonic() < until:
    for _ in obs.steps(range(10)):
        turns += 1
        [Emits() for _ in range(5)]
    gc.collect()
    if turns % 100 == 0: obs.snapshot(0.5)
signal.setitimer(signal.ITIMER_REAL, 0)
print("over", flush=True)
deadline = time.monotonic() + 60
def counted():  # on a machine that starves the agent events are dropped, and counted
    told = obs.snapshot(5.0)
    if told["loops"] is None: return 0  # it did not answer in time
    return told["loops"]["train"]["steps"] + (told["agent"]["events_dropped"] or 0)
while counted() < turns: assert time.monotonic() < deadline, (counted(), turns)
loops = obs.snapshot(60)["loops"]
print(counted() >= turns >= loops["train"]["steps"], loops["finalizers"]["steps"] > 100, loops["handlers"]["steps"] > 100)
"""


@pytest.mark.fault(22)
def test_scrapes_during_garbage_collection_and_marks_in_finalizers_and_handlers_block_nothing(
    start: Callable[..., Any],
) -> None:
    job = start(INTERRUPTS, JAXOBS_INTERVAL="0.1")
    address = job.process.stdout.readline().strip()
    scrapes: list[float] = []
    over = threading.Event()

    def scrape() -> None:
        while not over.is_set():
            began = time.monotonic()
            with urllib.request.urlopen(address, timeout=20) as answer:
                answer.read()
            scrapes.append(time.monotonic() - began)

    scraper = threading.Thread(target=scrape)
    scraper.start()
    try:
        job.wait_for("over")
    finally:
        over.set()
        scraper.join()
    outcome = job.end()
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "True True True\n", "")
    assert len(scrapes) > 1
    assert max(scrapes) < 10.0


STARTS = """
import gc, threading
import jax, jaxobs
from jaxobs.plugin.threads import living
step = jax.jit(lambda x: x + 1)
def counts():
    return threading.active_count(), len(living()), len(os.listdir("/proc/self/fd"))
def resident():
    with open("/proc/self/statm") as file: return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
for turn in range(40):
    with jaxobs.instrument(interval=0.05, prometheus=False) as obs:
        watched = obs.watch(step)
        for _ in obs.steps(range(5)): watched(1.0)
    assert obs.final_snapshot["loops"]["train"]["steps"] == 5
    if turn == 10:
        time.sleep(1.0)
        gc.collect()
        before, memory = counts(), resident()
time.sleep(1.0)
gc.collect()
print(counts() == before, resident() - memory < 5, (counts(), before, resident() - memory))
"""


@pytest.mark.slow
@pytest.mark.fault(37)
def test_forty_starts_and_stops_leave_nothing_behind(start: Callable[..., Any]) -> None:
    outcome = start(STARTS, observed=False).end(170)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("True True "), outcome.stdout


@pytest.mark.slow
@pytest.mark.fault(37)
def test_over_ten_thousand_scrapes_an_agent_stays_as_it_is(agent: AgentProcess) -> None:
    where = urlsplit(agent.address())
    process = psutil.Process(agent.snapshot()["agent"]["pid"])

    def scrape(times: int) -> None:
        client = http.client.HTTPConnection(str(where.hostname), where.port or 0, timeout=10)
        for number in range(times):
            client.request("GET", "/metrics")
            answer = client.getresponse()
            answer.read()
            assert answer.status == 200
            if number % 100 == 0:
                client.close()
        client.close()

    scrape(1_000)
    before = process.num_threads(), process.memory_info().rss
    threads = [threading.Thread(target=scrape, args=(2_500,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(0.5)
    assert process.num_threads() == before[0]
    assert process.memory_info().rss - before[1] < 5 * 2**20
    assert len(process.net_connections("tcp")) == 1  # it listens
