"""What the agent does where a loop of the job stands still."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from jaxobs.agent import service as module
from jaxobs.flow import wire
from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.events import LoopEntered, StacksTaken, StepEnded
from tests.agent.beside import AgentProcess, service_in_process

if TYPE_CHECKING:
    import pytest

THREAD = 5


def iteration(ended: int) -> tuple[LoopEntered, list[StepEnded]]:
    """Twenty steps of 0.1 s, each of which begins where one ended, the last of which ended then, and their loop."""
    ends = [ended - (19 - number) * NANOSECONDS // 10 for number in range(20)]
    steps = [
        StepEnded(
            "train", number, end - NANOSECONDS // 10, end, 0, 0, 0, 0, 0, None, None, False, THREAD, (), None
        )
        for number, end in enumerate(ends)
    ]
    return LoopEntered("train", steps[0].start), steps


def test_it_asks_for_the_stacks_and_says_where_the_loop_stands(
    start_agent: Callable[..., AgentProcess],
) -> None:
    agent = start_agent()
    entered, steps = iteration(now() - 60 * NANOSECONDS)
    agent.send([entered, *steps])
    agent.listen_until(lambda: agent.stacks_asked == 1)
    row = (THREAD, "MainThread", "train.py:9 callback", "lock.acquire", "waiting", ("train.py:9 callback",))
    agent.send([StacksTaken((row,), now())])
    agent.listen_until(lambda: agent.logs)
    assert agent.logs[0].startswith("`train` has ended no step for")
    assert agent.logs[0].endswith("its thread is waiting at `train.py:9 callback` (lock.acquire).")
    labels = 'activity="waiting",line="train.py:9 callback",loop="train"'
    text = agent.metrics_when(f"jaxobs_hang_info{{{labels}}} 1.0")
    assert 'jaxobs_hangs_total{loop="train"} 1.0' in text
    agent.send([iteration(now())[1][-1]._replace(step=20)])
    agent.listen_until(lambda: len(agent.logs) == 2)
    assert agent.logs[1] == "`train` goes on"
    assert 'jaxobs_hang_seconds{loop="train"} 0.0' in agent.metrics_when(
        'jaxobs_steps_total{loop="train"} 21.0'
    )


def test_it_is_said_again_when_it_has_lasted_twice_as_long_and_with_the_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with service_in_process() as (service, job):
        service.resource |= {"jax.process_index": "3", "jax.process_count": "4"}
        entered, steps = iteration(now())
        service.fold.apply(entered)
        for step in steps:
            service.fold.apply(step)
        for after in range(20, 200, 2):
            monkeypatch.setattr(module, "now", lambda after=after: steps[-1].end + after * NANOSECONDS)
            row = (THREAD, "MainThread", "train.py:9 f", "", "waiting", ("train.py:9 f",))
            service.fold.apply(StacksTaken((row,), now()))
            service._watch()
        told = [body for kind, body in wire.Frames().feed(job.recv(1 << 20)) if kind == wire.LOG]
    assert [line.split("(")[0].strip() for line in told] == [
        f"rank 3: `train` has ended no step for {seconds}" for seconds in ("22 s", "44 s", "88 s", "2.93 min")
    ]


def test_a_job_that_does_not_answer_is_said_not_to(start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent()
    entered, steps = iteration(now() - 60 * NANOSECONDS)
    agent.send([entered, *steps])
    agent.listen_until(lambda: agent.logs)
    assert agent.stacks_asked == 1
    assert "the process does not answer" in agent.logs[0]
    (hang,) = agent.snapshot()["hangs"]
    assert (hang["line"], hang["threads"], hang["over"]) == (None, [], False)


def test_a_job_that_reads_nothing_does_not_hold_up_its_agent() -> None:
    """As one whose native code holds the interpreter lock."""
    with service_in_process() as (service, job):
        service._take(wire.VALUES, None)

        def work() -> None:
            for heard in (1, 2):
                service.fold.observation.last_heard = heard
                for _ in range(5):
                    service._new_snapshot()
            for number in range(5_000):
                service.log(f"line {number}")
            service._send(wire.STACKS, THREAD)

        working = threading.Thread(target=work, daemon=True)
        working.start()
        working.join(60.0)
        assert not working.is_alive()
        kinds = [kind for kind, _ in wire.Frames().feed(job.recv(1 << 20))]
        assert (kinds.count(wire.VALUES), kinds[-1]) == (2, wire.STACKS)
        assert 10 < kinds.count(wire.LOG) < 5_000


def test_a_loop_does_not_stand_still_while_its_agent_does_not_run_either() -> None:
    """As where a laptop slept, or job and agent were stopped: the next snapshot is late by as much."""
    with service_in_process() as (service, job):
        entered, steps = iteration(now() - 60 * NANOSECONDS)
        service.fold.apply(entered)
        for step in steps:
            service.fold.apply(step)
        service._due -= 3600.0
        service._new_snapshot()
        job.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            assert wire.STACKS not in [kind for kind, _ in wire.Frames().feed(job.recv(1 << 20))]
