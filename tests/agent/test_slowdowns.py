"""What the agent says where a loop becomes slower for good."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.events import LoopEntered, ProfileWindow, StepEnded
from tests.agent.beside import AgentProcess


def steps(seconds: float, each: float, *, until: int) -> list[StepEnded]:
    """The steps of so many seconds, the last of which ends then."""
    count, length = round(seconds / each), round(each * NANOSECONDS)
    starts = [until - (count - number) * length for number in range(count)]
    return [
        StepEnded(
            "train", start // 1000, start, start + length, 0, 0, 0, 0, 0, None, None, False, 5, (), None
        )
        for start in starts
    ]


def test_it_says_so_once_and_shows_it_until_the_loop_is_as_fast_again(
    start_agent: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    agent, end = start_agent(run_folder=str(tmp_path)), now()
    before, slow = end - 320 * NANOSECONDS, end - 120 * NANOSECONDS
    first = steps(400, 0.5, until=before)
    agent.send([LoopEntered("train", first[0].start), *first, *steps(200, 1.0, until=slow)])
    agent.listen_until(lambda: agent.logs)
    assert agent.logs[0].startswith("`train` takes 1 s a step instead of 500 ms (+100 %) since ")
    assert "; where is not known: no sample of the main thread's stack is known" in agent.logs[0]
    text = agent.metrics_when('jaxobs_slowdowns_total{loop="train"} 1.0')
    (ratio,) = re.findall(r'^jaxobs_slowdown_ratio{loop="train"} (\S+)$', text, re.MULTILINE)
    assert float(ratio) == pytest.approx(
        2.0, rel=0.02
    )  # the change lies anywhere within a block of ten seconds
    assert 'jaxobs_slowdown_info{activity="",line="",loop="train"} 1.0' in text
    agent.listen_until(lambda: agent.profiles)  # the job's next window shows the slower steps
    agent.send([ProfileWindow("scheduled", "read", end, end + 1, 1, None, "/runs/a.xplane.pb", "")])
    agent.listen_until(lambda: len(agent.logs) == 2)
    assert agent.logs[1] == "a trace of the slower steps is kept: /runs/a.xplane.pb"
    agent.send(steps(119, 0.5, until=end))
    agent.listen_until(lambda: len(agent.logs) == 3)
    assert agent.profiles == [(0.0, True)]
    assert agent.logs[2].startswith("`train` took 1 s a step instead of 500 ms (+100 %) for 3.3")
    assert "jaxobs_slowdown_info{" not in agent.metrics_when('jaxobs_slowdown_ratio{loop="train"} 1.0')
