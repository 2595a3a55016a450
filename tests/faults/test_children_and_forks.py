"""Children of the job: it can wait for its own alone, and those that it forks hold nothing of ours."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.waiting import wait_for

REAPS = """
import signal, warnings
warnings.simplefilter("ignore")  # JAX's own of forks
signal.alarm(60)
if OBSERVED:
    assert obs.address
heard = []
signal.signal(signal.SIGCHLD, lambda *_: heard.append(1))
children = {os.fork() or os._exit(status) for status in (0, 3)}
statuses = []
while True:
    try:
        pid, status = os.wait()
    except ChildProcessError:
        break
    statuses.append((pid in children, os.waitstatus_to_exitcode(status)))
print(sorted(statuses), len(heard) > 0)
if OBSERVED:
    for _ in obs.steps(range(5)): pass
    assert obs.snapshot(60)["loops"]["train"]["steps"] == 5
"""


@pytest.mark.fault(38)
def test_a_job_that_waits_for_its_children_until_there_are_none_ends(run: Callable[..., Any]) -> None:
    plain, observed = run(REAPS, observed=False), run(REAPS)
    assert plain.stdout == "[(True, 0), (True, 3)] True\n"
    assert (observed.status, observed.stdout, observed.stderr) == (0, plain.stdout, "")


REAPS_AT_ONCE = """
import signal
signal.alarm(60)
import jaxobs
obs = jaxobs.instrument()
time.sleep(float(os.environ["AFTER"]))
try:
    while True:
        os.wait()
except ChildProcessError:
    print("none left")
assert obs.address
print(obs.snapshot(60)["process"]["agent"])
"""


@pytest.mark.fault(38)
@pytest.mark.parametrize("after", ["0", "0.005", "0.02"])
def test_a_wait_in_the_middle_of_the_start_hurts_neither_the_job_nor_the_start(
    run: Callable[..., Any], after: str
) -> None:
    """What forks the agent is the job's child for some milliseconds, and may be waited for by anybody."""
    outcome = run(REAPS_AT_ONCE, observed=False, AFTER=after)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "none left\nprocess\n", "")


AGAIN_AND_AGAIN = """
import contextlib, pathlib
import jaxobs
def children():
    found = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        try: found += (task / "children").read_text().split()
        except OSError: pass  # a thread that has just ended
    return found
for turn in range(4):
    obs = jaxobs.instrument()
    assert obs.address
    for _ in obs.steps(range(3)): pass
    time.sleep(0.3)
    obs.shutdown(1.0 if turn % 2 else None)
    print(children())
"""


@pytest.mark.slow
@pytest.mark.fault(50, 8)
def test_agents_that_still_wait_for_an_endpoint_are_no_zombies_of_the_job(
    run: Callable[..., Any], black_hole: str
) -> None:
    outcome = run(AGAIN_AND_AGAIN, observed=False, OTEL_EXPORTER_OTLP_ENDPOINT=black_hole)
    assert (outcome.status, outcome.stdout) == (0, "[]\n" * 4), outcome.stderr


FORKS = """
import json, random, signal, threading, warnings
warnings.simplefilter("ignore")
def held():
    links = set()
    for fd in os.listdir("/proc/self/fd"):
        try: links.add(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError: pass  # that of the listing itself
    return {link for link in links if not link.startswith("/")}  # a file that another thread imports at that moment
before = held()
delays, children, stop = random.Random(os.environ["SEED"]), [], threading.Event()
report, written = os.pipe()
before |= held()
def forks():
    for _ in range(50):
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            more = sorted(held() - before)
            os.write(written, (json.dumps(more) + "\\n").encode())
            os.dup2(os.open("/dev/null", os.O_WRONLY), 1); os.dup2(1, 2)
            time.sleep(60)
            os._exit(0)
        children.append(pid)
        time.sleep(delays.uniform(0, 0.005))
import jaxobs
forking = threading.Thread(target=forks)
forking.start()
time.sleep(0.005)
obs = jaxobs.instrument(interval=0.05)
forking.join()
inherited = b""
while inherited.count(b"\\n") < 50:
    inherited += os.read(report, 65536)
print(json.dumps([obs.address, children, sorted(set(inherited.decode().split("\\n")))]), flush=True)
print("running", flush=True)
while True:
    for _ in obs.steps(range(10)): pass
    time.sleep(0.01)
"""


@pytest.fixture
def ends_with_the_test() -> Iterator[list[int]]:
    children: list[int] = []
    yield children
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


@pytest.mark.fault(39)
@pytest.mark.parametrize("attempt", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_children_forked_while_jaxobs_starts_hold_nothing_of_ours(
    start: Callable[..., Any], seed: str, attempt: int, ends_with_the_test: list[int]
) -> None:
    """50 of them, before, during and after `instrument()`; an agent and the job are killed while all of them live."""
    job = start(FORKS, observed=False, SEED=f"{seed} {attempt}")
    said = job.process.stdout.readline()
    address, children, inherited = json.loads(said or "[]") or pytest.fail(job.end().stderr)
    ends_with_the_test += children
    assert inherited == ["", "[]"]
    job.wait_for("running")
    first = job.agent()
    first.process.kill()
    others = wait_for(
        lambda: [agent for agent in job.agents() if agent.pid != first.process.pid], "another agent", 20
    )
    job.process.kill()
    outcome = job.end()
    assert outcome.stderr == "jaxobs: the agent is gone; it is started again\n"
    wait_for(lambda: not any(agent.is_running() for agent in others), "the end of the job's agent")
    assert address


SCRAPED = """
import json, signal, socket, warnings
warnings.simplefilter("ignore")
import jaxobs
obs = jaxobs.instrument(agent="inline", interval=0.05)
def listens(fd):
    try:
        return bool(socket.socket(fileno=os.dup(fd)).getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:  # it is closed, or no socket
        return False
for _ in obs.steps(range(7)): pass
print(obs.address, flush=True)
assert any(map(listens, range(3, 256)))
sys.stdin.readline()
children = []
for _ in range(20):
    for _ in obs.steps(range(3)): pass
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        listening = [fd for fd in range(3, 256) if listens(fd)]
        emitted = obs._side.ring.emitted()
        for _ in obs.steps(range(9)): pass
        silent = obs._side.ring.emitted() == emitted
        os.write(1, (json.dumps([len(os.listdir("/proc/self/task")), listening, silent]) + "\\n").encode())
        os.dup2(os.open("/dev/null", os.O_WRONLY), 1); os.dup2(1, 2)
        time.sleep(60)
        os._exit(0)
    children.append(pid)
    time.sleep(0.02)
deadline = time.monotonic() + 10
while obs.snapshot(5.0)["loops"]["train"]["steps"] < 67 and time.monotonic() < deadline: pass
print("steps", obs.snapshot(60)["loops"]["train"]["steps"], flush=True)
sys.stdin.readline()
obs.shutdown()
print("over", flush=True)
sys.stdin.readline()
for pid in children: os.kill(pid, signal.SIGKILL)
"""


@pytest.mark.fault(19)
def test_children_forked_while_the_job_is_scraped_listen_nowhere_and_swallow_no_scrape(
    start: Callable[..., Any], page: Callable[..., str]
) -> None:
    """The agent is a thread of the job, so that the sockets are in the process that forks."""
    job = start(SCRAPED, observed=False, reads=True)
    address = job.process.stdout.readline().strip()
    page(address, 'jaxobs_steps_total{loop="train"} 7.0')
    answers: list[object] = []
    over = threading.Event()

    def scrape() -> None:
        while not over.is_set():
            try:
                with urllib.request.urlopen(address, timeout=5) as answer:
                    answers.append((answer.status, b"jaxobs_build_info" in answer.read()))
            except OSError as error:
                answers.append(str(error))

    scrapers = [threading.Thread(target=scrape) for _ in range(3)]
    for scraper in scrapers:
        scraper.start()
    wait_for(lambda: len(answers) >= 10, "the scrapers")
    job.say("go")
    said = [job.process.stdout.readline().strip() for _ in range(21)]
    over.set()
    for scraper in scrapers:
        scraper.join()
    assert sorted(said) == ["[1, [], true]"] * 20 + ["steps 67"]
    assert set(answers) == {(200, True)}
    job.say("end")
    job.wait_for("over")
    where = urlsplit(address)
    with pytest.raises(ConnectionRefusedError):  # though twenty children live
        socket.create_connection((str(where.hostname), where.port or 0), 5)
    job.say("leave")
    outcome = job.end()
    assert (outcome.status, outcome.stderr) == (0, "")
