"""Events emitted are the sum of those accepted, dropped and refused, whatever became of them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

AMOUNTS = """
for _ in obs.steps(range(300)): pass
for number in range(5):
    with obs.step(examples=float("nan"), tokens=-1.0): pass
"""
COUNTED = """
obs.shutdown(timeout=20)
agent = obs.snapshot(60)["agent"]
counts = [agent[f"events_{outcome}"] for outcome in ("accepted", "dropped", "refused")]
print(agent["events_emitted"] - sum(counts), counts[0] > 300, counts[1] > 0, counts[2])
"""


def test_one_whose_values_are_refused_is_in_one_count(run: Callable[..., Any]) -> None:
    outcome = run(AMOUNTS + COUNTED)
    assert (outcome.stdout, outcome.stderr) == ("0 True False 5\n", "")


def test_none_is_missed_where_the_ring_overflowed_to_the_last(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    """The agent is suspended while more is emitted than pipe and ring hold, and goes on only when the job ends."""
    source = f"""{AMOUNTS}
assert obs.snapshot(60)["loops"]["train"]["steps"] == 305
print("training", flush=True)
while not os.path.exists(os.environ["STOPPED"]):
    time.sleep(0.01)
for _ in range(40):
    for _ in obs.steps(range(1000)): pass
    time.sleep(0.02)
print("overflown", flush=True)
while os.path.exists(os.environ["STOPPED"]):
    time.sleep(0.01)
{COUNTED}"""
    stopped = tmp_path / "stopped"
    job = start(source, STOPPED=str(stopped), JAXOBS_RING_CAPACITY="500", JAXOBS_INTERVAL="0.1")
    job.wait_for("training")
    agent = job.agent()
    agent.process.send_signal(signal.SIGSTOP)
    stopped.touch()
    job.wait_for("overflown")
    agent.process.send_signal(signal.SIGCONT)
    stopped.unlink()
    outcome = job.end(60)
    assert (outcome.stdout, outcome.stderr) == ("0 True True 5\n", "")
