"""An agent that cannot start, is killed or stops costs the job nothing but what it would have shown."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxobs.plugin.guard import LIMITS

TRAINS = """
class Jitted:  # as far as can be told, and without importing JAX
    def lower(self): pass
    def __call__(self): pass
step = obs.watch(Jitted())
def train(seconds):
    until = time.monotonic() + seconds
    slowest, count = 0.0, 0
    for _ in obs.steps(iter(int, 1)):
        began = time.monotonic()
        step()
        slowest = max(slowest, time.monotonic() - began)
        count += 1
        if time.monotonic() > until:
            return count, slowest
"""


def test_an_agent_that_cannot_be_started_is_said_once(start: Callable[..., Any]) -> None:
    jobs = []
    for executable in ("'/does/not/exist'", "None", "''"):
        source = f"""
import jaxobs
executable, sys.executable = sys.executable, {executable}
obs = jaxobs.instrument(){TRAINS}
print(train(0.3)[0] > 100)
print(obs.address, obs.snapshot(timeout=0.2)["loops"], obs.snapshot(0.1)["loops_reason"] is not None)
began = time.monotonic()
obs.shutdown()
print(time.monotonic() - began < 0.5)
"""
        jobs.append(start(source, observed=False))
    for job in jobs:
        outcome = job.end()
        assert outcome.status == 0, outcome.stderr
        assert outcome.stdout == "True\nNone None True\nTrue\n"
        (line,) = outcome.stderr.splitlines()
        assert "could not be started" in line


def test_an_agent_that_is_killed_is_started_again_so_often_and_then_given_up(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    source = f"""{TRAINS}
import signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
print(obs.address is not None, flush=True)
print("training", flush=True)
while not os.path.exists(os.environ["ENDED"]):
    train(0.1)
print(obs.snapshot(timeout=0.3)["loops_reason"])
"""
    ended = tmp_path / "ended"
    job = start(source, ENDED=str(ended), JAXOBS_INTERVAL="0.1")
    job.wait_for("training")
    killed: set[int] = set()
    deadline = time.monotonic() + 30
    while len(killed) < 4 and time.monotonic() < deadline:
        for agent in job.agents():
            if agent.pid not in killed:
                killed.add(agent.pid)
                agent.kill()
        time.sleep(0.05)
    time.sleep(0.5)
    assert len(killed) == 4  # the first, and three more
    assert job.agents() == []
    ended.touch()
    outcome = job.end()
    assert (outcome.status, outcome.stdout) == (0, "no agent is there; the log says why\n")
    lines = outcome.stderr.splitlines()
    lines = [line.replace(f" before it had started (perhaps {LIMITS})", "") for line in lines]  # as may be
    assert lines == ["jaxobs: the agent is gone; it is started again"] * 3 + [
        "jaxobs: the agent is gone; nothing is observed any more"
    ]


def test_a_new_agent_knows_the_executables_that_were_made_before_it(run: Callable[..., Any]) -> None:
    source = """
import jax, signal
step = obs.watch(jax.jit(lambda x: x + 1))
for _ in obs.steps(range(5)):
    step(1.0)
first = obs.snapshot(60)
assert first["executables"][0]["cost"]["flops"] == 1
assert first["process"]["counts_begin_seconds_reason"] == "no agent was lost"
os.kill(first["agent"]["pid"], signal.SIGKILL)
time.sleep(0.5)
for _ in obs.steps(range(7)):
    step(1.0)
deadline = time.monotonic() + 60
while not (told := obs.snapshot().document)["executables"] or told["process"]["counts_begin_seconds"] is None:
    assert time.monotonic() < deadline, told
process, found = told["process"], told["executables"]
assert first["process"]["seconds"] < process["counts_begin_seconds"] < process["seconds"], process
assert sum(process["run_seconds"].values()) <= process["seconds"] - process["counts_begin_seconds"], process
assert process["run_seconds"]["initialisation"] == 0, process
assert "the agent was lost" in str(obs.snapshot())
print(found[0]["function"], found[0]["cost"]["flops"], found[0]["runs"], obs.snapshot()["process"]["platform"])
"""
    outcome = run(source)
    assert (outcome.status, outcome.stdout) == (0, "<lambda> 1.0 7 cpu\n"), outcome.stderr


def test_an_agent_that_stops_is_not_waited_for_and_memory_is_bounded(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    source = f"""{TRAINS}
import tracemalloc
train(0.5)
obs.snapshot(60)
print("training", flush=True)
while not os.path.exists(os.environ["STOPPED"]):
    time.sleep(0.01)
_, before = train(0.5)
tracemalloc.start()
count, _ = train(0.5)
held, _ = tracemalloc.get_traced_memory()
tracemalloc.stop()
began = time.monotonic()
reason = obs.snapshot(timeout=0.3)["loops_reason"]
print(reason, time.monotonic() - began < 1.0)
print(obs._side.ring.dropped() > 0, held < 20e6, flush=True)
began = time.monotonic()
obs.shutdown()
print(time.monotonic() - began < 1.0, flush=True)
"""
    stopped = tmp_path / "stopped"
    job = start(source, STOPPED=str(stopped), JAXOBS_RING_CAPACITY="2000", JAXOBS_INTERVAL="0.1")
    job.wait_for("training")
    agent = job.agent()
    agent.process.send_signal(signal.SIGSTOP)
    stopped.touch()
    outcome = job.end(20)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.splitlines() == [
        "the agent did not answer within 0.3 s True",
        "True True",
        "True",
    ]
    assert agent.is_gone_within(1.0)  # it cannot end by itself


def test_what_was_written_to_an_agent_that_never_read_it_is_counted_as_dropped(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    source = """
for _ in obs.steps(range(10)): pass
assert obs.snapshot(60)["loops"]["train"]["steps"] == 10
folded = obs._side.ring.emitted()
print("training", flush=True)
while not os.path.exists(os.environ["STOPPED"]):
    time.sleep(0.01)
for _ in obs.steps(range(500)): pass
deadline = time.monotonic() + 10
while len(obs._side.ring) >= 100:  # some turns of the sender
    assert time.monotonic() < deadline
    time.sleep(0.05)
print("written", flush=True)
deadline = time.monotonic() + 10
while not ((told := obs.snapshot(timeout=1)["agent"]) and told["events_dropped"]):
    assert time.monotonic() < deadline
# Between the two looks at the ring lie the steps, the end of their loop, and reports; some before them were in flight.
print(501 <= told["events_dropped"] <= obs._side.ring.emitted() - folded + 50, told["events_dropped"], flush=True)
"""
    stopped = tmp_path / "stopped"
    job = start(source, STOPPED=str(stopped), JAXOBS_INTERVAL="0.1")
    job.wait_for("training")
    agent = job.agent()
    agent.process.send_signal(signal.SIGSTOP)
    stopped.touch()
    job.wait_for("written")
    agent.process.kill()
    outcome = job.end(30)
    assert (outcome.status, outcome.stdout[:5]) == (0, "True "), outcome


REUSES = """
import socket, tempfile
for _ in obs.steps(range(5)): pass
assert obs.snapshot(20.0)["loops"]["train"]["steps"] == 5
os.closerange(3, 256)
pairs = [socket.socketpair() for _ in range(4)]
files = [tempfile.TemporaryFile(buffering=0) for _ in range(8)]
turns, deadline = 0, time.monotonic() + 30
def talk():
    for end, other in pairs:
        end.settimeout(5)
        other.settimeout(5)
        end.sendall(b"to")
        other.sendall(b"fro")
        assert (other.recv(99), end.recv(99)) == (b"to", b"fro")
while obs._side.sender.agents < 2 or turns < 100:
    assert time.monotonic() < deadline
    for _ in obs.steps(range(5)): pass
    talk()
    for file in files: file.write(b"x")
    turns += 1
for _ in obs.steps(range(5)): pass  # the agent that is there now hears of these
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Python 3.12 and later warn of a fork beside threads
    pid = os.fork()
if pid == 0:
    talk()  # nothing of it was closed in the child
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(obs.snapshot(20.0)["loops"]["train"]["steps"] > 0)
obs.shutdown()
del obs
talk()
print({os.fstat(file.fileno()).st_size == os.lseek(file.fileno(), 0, 1) == turns for file in files})
"""


def test_descriptors_that_the_job_closes_and_uses_again_are_its_own(run: Callable[..., Any]) -> None:
    outcome = run(REUSES, JAXOBS_INTERVAL="0.1")
    assert (outcome.status, outcome.stdout) == (0, "0\nTrue\n{True}\n"), outcome.stderr
    assert outcome.stderr == "jaxobs: the agent is gone; it is started again\n"
