"""Children of the job: it can wait for its own alone, and those that it forks hold nothing of ours."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.launched import environment
from tests.waiting import wait_for

REAPS = """
import signal, warnings
warnings.simplefilter("ignore")  # JAX's own of forks
signal.alarm(60)
if OBSERVED:
    while obs.address is None: time.sleep(0.1)
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


FIRST_PROCESS = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
signal.alarm(100)
import jax, jaxobs
obs = jaxobs.instrument(prometheus=False)
jax.jit(lambda x: x)(1.0)
assert obs.snapshot(60)["agent"] is not None
pid = os.fork() or os._exit(3)
statuses = []
import time
while True:
    try:
        statuses.append(os.wait())
    except ChildProcessError:
        break
    time.sleep(2)  # another agent, if one were started, would be there by now
print(os.getpid(), (pid, 3 << 8) in statuses, len(statuses) <= 2)
"""


@pytest.mark.fault(38)
def test_the_first_process_of_a_container_that_waits_until_it_has_no_child_ends() -> None:
    """The agent is a child of such a process, as every orphan is; it ends when it sees that it is waited for."""
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    done = subprocess.run([*alone, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no first process can be had here: {done.stderr.strip()}")
    done = subprocess.run(
        [*alone, sys.executable, "-c", FIRST_PROCESS], env=environment(), capture_output=True, text=True,
        timeout=170, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "1 True True\n"), done.stderr
    assert done.stderr.splitlines() == [
        "jaxobs: observing ends: the job waits until it has no child any more",
        "jaxobs: the agent is gone; nothing is observed any more",
    ]


REAPS_STRANGERS = """
import ctypes, signal
prctl = ctypes.CDLL(None).prctl
prctl(36, 1, 0, 0, 0)  # a child subreaper: orphans below it become its children
strangers = []
def reap(*_):
    while True:
        try: pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError: return
        if pid == 0: return
        strangers.append(pid)
signal.signal(signal.SIGCHLD, reap)
import jaxobs
if os.environ["PYTHON"]: sys.executable = os.environ["PYTHON"]
held = os.dup(2)
os.set_inheritable(held, True)
obs = jaxobs.instrument()
reap()
while obs.address is None: time.sleep(0.1)
reap()
print(strangers, end=" ")
subreaper = ctypes.c_int()
prctl(37, ctypes.byref(subreaper), 0, 0, 0)
try: os.wait()
except ChildProcessError: print("none left", subreaper.value, flush=True)
agent = obs.snapshot(20.0)["agent"]["pid"]
proc = f"/proc/{agent}/"
with open(proc + "environ", "rb") as file: variables = file.read().split(b"\\0")
print(sorted(name for line in variables if (name := line.partition(b"=")[0]).startswith(b"PYTHON")))
with open(proc + "status") as file: blocked = [line.split()[1] for line in file if line.startswith("SigBlk")]
print({os.readlink(proc + f"fd/{number}") for number in (0, 1, 2)}, os.readlink(proc + "cwd"), int(blocked[0], 16))
held = os.readlink(f"/proc/self/fd/{held}")
its = set()
for number in os.listdir(proc + "fd"):
    try: its.add(os.readlink(proc + "fd/" + number))
    except OSError: pass  # it reads a file now and then, which it has closed by now
print(held in its)
"""


@pytest.mark.fault(38, 74)
@pytest.mark.parametrize("odd", [False, True])
def test_no_handler_and_no_wait_of_the_job_finds_a_child_of_ours_at_any_time(
    run: Callable[..., Any], tmp_path: Path, odd: bool
) -> None:
    """And the agent has nothing of the job's but what it needs, wherever Python is installed."""
    python = tmp_path / 'it\'s "odd" $HOME\nof it' / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    of_the_job = {
        "PYTHONTRACEMALLOC": "1",
        "PYTHONDEVMODE": "",
        "PYTHONPROFILEIMPORTTIME": "",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    outcome = run(REAPS_STRANGERS, observed=False, PYTHON=str(python) if odd else "", **of_the_job)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (
        0, "[] none left 1\n[b'PYTHONDONTWRITEBYTECODE']\n{'/dev/null'} / 0\nFalse\n", "",
    )  # fmt: skip


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
    while obs.address is None: time.sleep(0.1)  # on a busy machine an agent takes long to start
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


# `import selectors` opens an epoll for a moment, to see whether there is one, and `logging` and `concurrent.futures` have
# locks taken around a fork, which they fail to release after one that began before: whoever imports them.
FORKS = """
import concurrent.futures.thread, json, logging, random, selectors, signal, threading, warnings
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
while obs.address is None: time.sleep(0.01)  # on a busy machine an agent needs long to start
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
