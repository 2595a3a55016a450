"""However a job ends: its exit status is its own, nobody waits for the agent, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.waiting import wait_for

TRAINS = """
import threading
import jax, jax.numpy as jnp
step = jax.jit(lambda x: jax.lax.fori_loop(0, 400, lambda _, a: a @ a / 128, x).sum())
if OBSERVED:
    step = obs.watch(step)
x = jnp.ones((128, 128))
"""
FOREVER = """
turns = 0
for _ in obs.steps(iter(int, 1)):
    loss = step(x)
    turns += 1
    if turns == 2:  # so that one has ended
        loss.block_until_ready()
        print(obs.address, flush=True)
        print("training", flush=True)
    time.sleep(0.001)
"""


@pytest.fixture
def black_hole() -> Iterator[str]:
    """An OTLP endpoint that accepts and never answers."""
    with socket.create_server(("localhost", 0), backlog=50) as server:
        accepted: list[socket.socket] = []

        def accept() -> None:
            try:
                while True:
                    accepted.append(server.accept()[0])
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://localhost:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for connection in accepted:
            connection.close()


def test_a_killed_job_leaves_no_port_and_no_process_and_its_caller_does_not_wait(
    start: Callable[..., Any], black_hole: str
) -> None:
    job = start(TRAINS + FOREVER, OTEL_EXPORTER_OTLP_ENDPOINT=black_hole)
    address = job.process.stdout.readline().strip()
    job.wait_for("training")
    port = int(address.rpartition(":")[2].partition("/")[0])
    agent = job.agent()
    with socket.create_connection(("localhost", port), 2):
        pass
    killed = time.monotonic()
    job.process.kill()
    outcome = job.end(10)  # reads the captured output to its end
    assert time.monotonic() - killed < 8.0
    assert outcome.status == -signal.SIGKILL

    def is_closed() -> bool:  # a reset is of a connection that was waiting as the server closed
        try:
            socket.create_connection(("localhost", port), 0.2).close()
        except ConnectionRefusedError:
            return True
        return False

    wait_for(is_closed, "the port to be closed")
    assert agent.is_gone_within(60)


def test_ctrl_c_is_for_the_job_and_not_for_the_agent(start: Callable[..., Any]) -> None:
    source = (
        TRAINS
        + "try:\n"
        + FOREVER.replace("\n", "\n    ")
        + (
            "\nexcept KeyboardInterrupt:\n"
            "    print(obs.snapshot(60)['loops']['train']['steps'] > 0, flush=True)\n"
            "    raise\n"
        )
    )
    job = start(source)
    job.wait_for("training")
    agent = job.agent()
    os.killpg(job.process.pid, signal.SIGINT)  # as the terminal does
    outcome = job.end(15)
    assert outcome.status == -signal.SIGINT
    assert outcome.stdout.splitlines()[-1] == "True"
    assert outcome.stderr.splitlines()[-1] == "KeyboardInterrupt"
    # The interrupt may fall into a frame of ours, which the traceback then names: nothing else speaks of jaxobs.
    said = [line for line in outcome.stderr.splitlines() if not line.startswith("  ")]
    assert not [line for line in said if "jaxobs" in line]
    assert agent.is_gone_within(60)


def test_sigterm_ends_the_job_at_once_and_the_agent_after_it(start: Callable[..., Any]) -> None:
    job = start(TRAINS + FOREVER)
    job.wait_for("training")
    agent = job.agent()
    os.killpg(
        agent.process.pid, signal.SIGTERM
    )  # sent to a whole container: the job alone says when it is over
    told = time.monotonic()
    job.process.terminate()
    outcome = job.end(10)
    assert time.monotonic() - told < 8.0
    assert (outcome.status, outcome.stderr) == (-signal.SIGTERM, "")
    assert agent.is_gone_within(60)


ENDINGS = {
    "falls off the end": ("", 0),
    "sys.exit": ("sys.exit(7)", 7),
    "sys.exit with a message": ("sys.exit('why')", 1),
    "os._exit": ("os._exit(9)", 9),
    "exit in a step": ("with obs.step():\n    step(x)\n    sys.exit(0)", 0),
}  # fmt: skip


def test_exit_in_the_middle_of_sampling_is_as_without(start: Callable[..., Any]) -> None:
    """Never 134: a thread inside a JAX call at interpreter exit would abort the process."""
    busy = """
for turn in obs.steps(range(60)):
    step(x)  # dispatched and not waited for: samples are being polled when the end comes
"""
    jobs = [
        (name, status, start(TRAINS + busy + ending, JAXOBS_SAMPLE_INTERVAL="0.05"))
        for name, (ending, status) in ENDINGS.items()
    ]
    ended = {name: (job.end(), status) for name, status, job in jobs}
    assert {name: outcome.status for name, (outcome, _) in ended.items()} == {
        name: status for name, (_, status) in ended.items()
    }
    for name, (outcome, _) in ended.items():
        assert outcome.stderr == ("why\n" if name == "sys.exit with a message" else ""), name


FORKS = """
import threading, warnings
warnings.simplefilter("ignore")
import jax
step = obs.watch(jax.jit(lambda x: x + 1))
plain = obs.watch(lambda: None)
for _ in obs.steps(range(10)):
    step(1.0)
obs.record(loss=1.0)
address = obs.address
pid = os.fork()
if pid == 0:
    import signal
    signal.alarm(20)  # a child that hangs ends
    sockets = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
               if os.path.exists(f"/proc/self/fd/{fd}") or os.path.islink(f"/proc/self/fd/{fd}")]
    said = [len(os.listdir("/proc/self/task")), [name for name in sockets if name.startswith("socket:")]]
    for _ in obs.steps(range(1000)):
        plain()
    with obs.step(), obs.phase("checkpoint"):
        obs.record(loss=2.0)
    began = time.monotonic()
    said.append(obs.snapshot().document["loops_reason"])
    obs.shutdown()
    said.append(time.monotonic() - began < 0.5)
    print(said, flush=True)
    os._exit(5)  # an orderly exit crashes in JAX's own clean-up, with jaxobs or without
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status))
time.sleep(0.1)
print(obs.snapshot(60)["loops"]["train"]["steps"], obs.snapshot(60)["loops"]["train"]["recorded"])
import urllib.request
until = time.monotonic() + 60
while not (shown := b"jaxobs_steps_total" in urllib.request.urlopen(address).read()) and time.monotonic() < until:
    time.sleep(0.01)  # the page is written once an interval
print(shown)
"""


def test_after_a_fork_nothing_of_ours_runs_in_the_child(run: Callable[..., Any]) -> None:
    outcome = run(FORKS)
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.splitlines() == [
        "[1, [], 'the observer has ended', True]",
        "5",
        "10 {'loss': 1.0}",
        "True",
    ]


DELETES = """
import threading, jax, jax.numpy as jnp
from jaxobs.jax_compat.arrays import is_ready
sys.setswitchinterval(1e-6)
newest = [jnp.ones(3)]
running = True
asked = [0, 0]
def ask():
    while running:
        try:
            is_ready(newest[0])
            asked[0] += 1
        except RuntimeError:
            asked[1] += 1
thread = threading.Thread(target=ask)
thread.start()
double = jax.jit(lambda x: x * 2)
until = time.monotonic() + 3
while time.monotonic() < until:
    array = newest[0] = double(1.0)
    array.delete()
running = False
thread.join()
print(min(asked) > 10)
"""


def test_asking_an_array_while_the_job_deletes_it_does_no_harm(run: Callable[..., Any]) -> None:
    outcome = run(DELETES, observed=False)
    assert (outcome.status, outcome.stdout) == (0, "True\n"), outcome.stderr


DELETES_WITHIN = """
import jax.numpy as jnp
from jaxobs.jax_compat.arrays import memory_ran_out

def ask(deleted_at):
    array, events = jnp.ones(3), 0
    def count(frame, *_):  # called before each instruction
        nonlocal events
        frame.f_trace_opcodes = True
        events += 1
        if events == deleted_at:
            array.delete()
        return count
    sys.settrace(count)
    ran_out = memory_ran_out(array)
    sys.settrace(None)
    return ran_out

print([ask(number) for number in range(80)] == [False] * 80)
"""


def test_an_array_deleted_at_any_point_of_the_question_whether_it_failed_does_no_harm(
    run: Callable[..., Any],
) -> None:
    outcome = run(DELETES_WITHIN, observed=False)
    assert (outcome.status, outcome.stdout) == (0, "True\n"), outcome.stderr
