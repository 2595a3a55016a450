"""While the agent takes nothing, what waits for it is bounded in the job's memory."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

EMITS = """
import pathlib
from jaxobs.model.events import ExecutableCreated
from jaxobs.probe.transport.backlog import MAX_WAITING_BYTES

def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

while obs.address is None: time.sleep(0.1)  # on a busy machine an agent takes long to start
print("running", flush=True)
while not os.path.exists(os.environ["STOPPED"]):
    time.sleep(0.01)
before, most = resident(), 0
side = obs._side
for number in range(240):
    side.payloads.emit(ExecutableCreated(number, "step", 0, b"x" * (5 * 2**20 + number), "", (), 1))
    assert side.payloads.waiting_bytes() <= MAX_WAITING_BYTES
    most = max(most, resident() - before)
    time.sleep(0.005)
refused = [event for event in side.ring.waiting() if type(event) is ExecutableCreated and event.proto is None]
print(len(refused) > 100, most < 2.2 * MAX_WAITING_BYTES, flush=True)  # twice: the sender encodes a copy
obs.shutdown(timeout=1.0)
"""


def test_modules_that_wait_for_an_agent_that_is_stopped_are_bounded_in_bytes(
    start: Callable[..., Any], tmp_path: Any
) -> None:
    """1.2 GB of them are emitted."""
    stopped = tmp_path / "stopped"
    job = start(EMITS, STOPPED=str(stopped), JAXOBS_INTERVAL="0.1")
    job.wait_for("running")
    agent = job.agent()
    agent.process.send_signal(signal.SIGSTOP)
    stopped.touch()
    outcome = job.end()
    agent.process.send_signal(signal.SIGCONT)
    assert (outcome.status, outcome.stdout) == (0, "True True\n"), outcome.stderr
    assert agent.is_gone_within(60)
