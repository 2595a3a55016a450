"""The snapshot that the summary is made of is there at a job's end, also where the agent gets no core for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

AGENT_WITHOUT_A_CORE = """
import pathlib, signal, threading
import jaxobs

obs = jaxobs.instrument(prometheus=False)
for _ in obs.steps(range(5)):
    pass
assert obs.snapshot(20.0)["loops"]["train"]["steps"] == 5
children = [file.read_text() for file in pathlib.Path("/proc/self/task").glob("*/children")]
agent = int(" ".join(children))
os.kill(agent, signal.SIGSTOP)
threading.Timer(STOPPED, os.kill, (agent, signal.SIGCONT)).start()
began = time.monotonic()
obs.shutdown()
print(obs.final_snapshot["loops"] is not None, time.monotonic() - began)
"""


@pytest.mark.parametrize(("stopped", "told"), [(2.5, True), (6.5, False)])
def test_it_waits_for_a_busy_machine_within_the_time_to_shut_down(
    run: Callable[..., Any], stopped: float, told: bool
) -> None:
    outcome = run(AGENT_WITHOUT_A_CORE.replace("STOPPED", str(stopped)), observed=False)
    assert outcome.status == 0, outcome.stderr
    known, took = outcome.stdout.split()
    assert known == str(told)
    assert float(took) < 5.0 + 1.0  # the setting, and what a machine that is busy adds
