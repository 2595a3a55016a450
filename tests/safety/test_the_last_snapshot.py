"""The snapshot that the summary is made of is there at a job's end, also where the agent gets no core for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

AGENT_WITHOUT_A_CORE = """
import subprocess
import jaxobs

obs = jaxobs.instrument(prometheus=False)
for _ in obs.steps(range(5)):
    pass
assert obs.snapshot(60)["loops"]["train"]["steps"] == 5
agent = obs.snapshot(60)["agent"]["pid"]
core = min(os.sched_getaffinity(0))
os.sched_setaffinity(agent, {core})
os.sched_setscheduler(agent, os.SCHED_IDLE, os.sched_param(0))
os.sched_setaffinity(0, {core})
spin = "import time\\nwhile time.process_time() < SECONDS: pass"
taking = subprocess.Popen([sys.executable, "-c", spin])
time.sleep(0.3)
began = time.monotonic()
obs.shutdown(60.0)
print(obs.final_snapshot["loops"] is not None, time.monotonic() - began)
taking.kill()
taking.wait()
"""


def test_it_waits_for_a_busy_machine_within_the_time_to_shut_down(run: Callable[..., Any]) -> None:
    outcome = run(AGENT_WITHOUT_A_CORE.replace("SECONDS", "2.0"), observed=False)
    assert outcome.status == 0, outcome.stderr
    known, took = outcome.stdout.split()
    assert known == "True"  # the other tests take the same core, and an idle one gets what they leave
    assert float(took) < 60.0


STOPPED_AGENT = """
import signal
import jaxobs

obs = jaxobs.instrument(prometheus=False)
for _ in obs.steps(range(5)):
    pass
agent = obs.snapshot(60)["agent"]["pid"]
os.kill(agent, signal.SIGSTOP)
began = time.monotonic()
obs.shutdown()
print(obs.final_snapshot["loops_reason"], time.monotonic() - began < 1.0)
time.sleep(0.2)
import psutil
print(psutil.pid_exists(agent) and psutil.Process(agent).status() != psutil.STATUS_ZOMBIE)
"""


def test_a_suspended_agent_is_not_waited_for_and_does_not_stay_behind(run: Callable[..., Any]) -> None:
    outcome = run(STOPPED_AGENT, observed=False)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout == "the agent did not answer within 5 s True\nFalse\n"


LASTS = """
import jax
import jaxobs

obs = jaxobs.instrument()
jax.jit(lambda x: x + 1)(1.0)

class Logger:
    def __init__(self):
        self.obs, self.print = obs, print
    def __del__(self):
        self.print(self.obs.values(), self.obs.snapshot() is self.obs.final_snapshot)

logger = Logger()
"""


def test_what_is_asked_as_modules_are_cleared_is_answered(run: Callable[..., Any]) -> None:
    outcome = run(LASTS, observed=False)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "{} True\n", "")
