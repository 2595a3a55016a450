"""The sampler as a whole, in processes of their own: it is there, it ends, and it leaves everything as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxobs.flow.ring import Ring
from jaxobs.model.clock import now
from jaxobs.model.events import MAX_GAP, MainThreadSampled
from jaxobs.probe.host_lines import BEFORE, HostLines, ThreadAccount
from jaxobs.probe.stack import Describer
from jaxobs.probe.steps.iteration import Steps
from jaxobs.probe.steps.loops import Loops
from jaxobs.probe.steps.marks import StepMark
from jaxobs.probe.watch.watched import Watched
from jaxobs.vocabulary.activities import ACTIVITIES, PROCESSOR, WAITING


def sampler_of(loop: Callable[[], str | None], log: Callable[[str], None] = print) -> HostLines:
    return HostLines(Describer(Steps.__iter__.__code__, Watched.__call__.__code__), loop, log)


JOB = """
import os, sys, threading, time
import jax, jax.numpy as jnp, jaxobs
observer = jaxobs.instrument(prometheus=False{settings})
step = observer.watch(jax.jit(lambda x: jnp.tanh(x @ x)))
x = step(jnp.eye(64))
def collate(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
for _ in observer.steps(range({steps})):
    collate({collates})
    x = step(x)
    x.block_until_ready()
{then}
"""


def ran(settings: str = "", then: str = "", steps: int = 1, collates: float = 0.05) -> str:
    """What a job prints that computes so many seconds in Python before each short step."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", JOB.format(settings=settings, then=then, steps=steps, collates=collates)],
        env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_python_between_short_steps_is_host_and_its_line_is_told() -> None:
    shows = (
        "known = observer.snapshot(60); print(known.to_dict()['loops']['train']['bottleneck']); print(known)"
    )
    # Under load there is a sample a second, and a step of one millisecond takes tens of them.
    printed = ran(then=f"time.sleep(2.5); {shows}", steps=30, collates=0.3)
    assert "collate" in printed
    assert "'label': 'host'" in printed
    assert "host lines of train: " in printed


@pytest.mark.long
def test_what_the_main_thread_does_between_two_marked_steps_is_the_loops() -> None:
    """A loop that waited for its input 94 % of the time was said to have kept its device busy, by one sample."""
    loop = """
def loader():
    for _ in range(60):
        time.sleep(0.1)
        yield x
for each in loader():
    with observer.step(): step(each).block_until_ready()
print(observer.snapshot(60).to_dict()['loops']['train']['bottleneck'])"""
    assert "'label': 'input'" in ran(then=loop, collates=0.0)


def test_what_follows_a_marked_step_is_its_loops_while_another_may_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loops, phase = Loops(Ring(100)), object()
    assert not loops.between_steps(None)
    for name in ("eval", "train"):
        with StepMark(loops, name, None, None):
            pass
    assert loops.between_steps(None) == "train"
    assert not loops.between_steps(phase)
    monkeypatch.setattr("jaxobs.probe.steps.loops.now", lambda: now() + MAX_GAP)
    assert not loops.between_steps(None)


def test_it_can_be_switched_off() -> None:
    told = (
        "from jaxobs.plugin.threads import living; names = {one.name for one in living()}; "
        "print('jaxobs-host-lines' in names, len(names) > 1)"
    )
    assert ran(then=told).strip() == "True True"
    assert ran(", host_lines=False", then=told).strip() == "False True"


def test_its_thread_is_joined_at_the_end() -> None:
    told = "from jaxobs.plugin.threads import living; observer.shutdown(); print(living())"
    assert ran(then=told).strip() == "[]"


def sampled(sampler: HostLines, seconds: float) -> list[MainThreadSampled]:
    """What it says of this thread, which works in Python meanwhile."""
    thread = threading.Thread(target=sampler.run, daemon=True)
    thread.start()
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
    events = sampler.take()
    sampler.stop()
    thread.join(5.0)
    assert not thread.is_alive()
    return events


class Account(ThreadAccount):
    """Of a thread that runs for a millisecond between two readings, and waits at each."""

    def __init__(self) -> None:
        self.ran = 1.0

    def is_on_processor(self) -> bool:
        return False

    def times(self) -> tuple[float, float]:
        self.ran += 0.001
        return self.ran, 0.0


@pytest.mark.parametrize(
    ("late", "waits_in", "activity"),
    [
        (0.0, "time.sleep", WAITING),
        (0.001, BEFORE, PROCESSOR),
        (0.004, "time.sleep", WAITING),  # another thread had the lock: this one ran too short
    ],
)
def test_python_that_ends_while_a_sample_waits_for_the_lock_is_told_as_such(
    late: float, waits_in: str, activity: str
) -> None:
    sampler = sampler_of(lambda: "")
    account = Account()
    sampler._ran_before = account.ran
    events: list[MainThreadSampled] = []

    def look() -> None:
        time.sleep(0.1)
        for lateness in (0.0, late):
            events[:] = sampler.take()
            sampler._sample(account, lateness, lateness)
        events[:] = sampler.take()[-1:]

    thread = threading.Thread(target=look)
    thread.start()
    while thread.is_alive():
        time.sleep(1.0)
    ((row,),) = (event.rows for event in events)
    assert row[2:4] == (waits_in, activity)


def test_seconds_of_all_rows_are_the_time_and_there_are_many_threads() -> None:
    ended = threading.Event()
    others = [threading.Thread(target=ended.wait, daemon=True) for _ in range(200)]
    for other in others:
        other.start()
    sampler = sampler_of(lambda: "train")
    (event,) = sampled(sampler, 3.0)
    ended.set()
    for other in others:
        other.join()
    total = sum(row[4] for row in event.rows)
    assert 1.0 < total <= 3.2
    assert total == pytest.approx((event.end - event.start) / 1e9, rel=0.01)
    assert {row[0] for row in event.rows} == {"train"}
    assert {row[3] for row in event.rows} <= set(ACTIVITIES)
    here = Path(__file__).name
    assert max(event.rows, key=lambda row: row[4])[1].startswith(here)


def test_the_main_thread_is_not_sampled_while_another_thread_trains() -> None:
    assert sampled(sampler_of(lambda: None), 1.0) == []


def test_an_error_in_a_sample_is_contained_and_the_sampler_goes_on() -> None:
    log: list[str] = []

    def broken() -> str:
        if len(log) == 0:
            raise RuntimeError("the marks are broken")
        return ""

    assert sampled(sampler_of(broken, log.append), 2.0)
    assert len(log) == 1
    assert "the marks are broken" in log[0]


def test_a_main_thread_that_is_in_one_call_for_long_is_there_all_that_time() -> None:
    sampler = sampler_of(lambda: "")
    thread = threading.Thread(target=sampler.run, daemon=True)
    thread.start()
    time.sleep(2.0)
    sampler.take()  # the first sample may come before it sleeps; under load the next comes a second later
    time.sleep(2.0)
    events = sampler.take()
    sampler.stop()
    thread.join(5.0)
    (event,) = events
    row = max(event.rows, key=lambda row: row[4])
    assert row[1].endswith(" test_a_main_thread_that_is_in_one_call_for_long_is_there_all_that_time")
    assert row[2:4] == ("time.sleep", "waiting")
    assert row[4] > 0.9 * sum(each[4] for each in event.rows)
