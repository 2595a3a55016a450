"""A loop that becomes slower for good: when that is told, what it is put down to, and where it is shown."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest

from jaxobs.derive.fold import Fold
from jaxobs.derive.loops.host_lines import NOT_SAMPLED, HostLine
from jaxobs.derive.loops.loop import Loop
from jaxobs.derive.loops.slowdowns import FORGOTTEN, Block, State
from jaxobs.model.events import (
    Compilation,
    LoopEntered,
    MainThreadSampled,
    MemorySampled,
    PhaseEnded,
    PhaseStarted,
)
from jaxobs.vocabulary.text import EAGER
from tests.derive.made_up import SECOND, at, families, new_fold, step, waits

BEFORE: Mapping[str, float] = {"marked_input": 0.2, "processor": 0.1, "device": 0.2}
"""Seconds of a step by what the loop's thread does."""


class Training:
    """A loop whose host waits for the device in each step, folded and looked at each second."""

    def __init__(self) -> None:
        self.fold: Fold = new_fold()
        self.fold.apply(LoopEntered("train", at(0)))
        self.now = 0.0
        self.steps = 0

    def train(
        self,
        seconds: float,
        parts: Mapping[str, float] | None = None,
        *,
        checkpoint: float = 0.0,
        sampled: bool = True,
        run: int = 7,
    ) -> None:
        """Train for so long with these parts of a step instead of those of before."""
        spent, until = {**BEFORE, **(parts or {})}, self.now + seconds
        length = sum(spent.values()) + checkpoint
        while self.now < until:
            end = self.now + length
            made = step(
                self.steps, self.now, end, wait=spent["marked_input"], checkpoint=checkpoint, runs=(run,)
            )
            self.fold.apply(made)
            if sampled:
                rows = tuple(
                    ("train", f"train.py:1 {word}", "", word, each, 10) for word, each in spent.items()
                )
                self.fold.apply(MainThreadSampled(at(self.now), at(end), rows))
            self.steps, self.now = self.steps + 1, end
            if self.steps % 2 == 0:
                self.fold.apply(waits(self.now))
                self.fold.snapshot(at(self.now))

    def told(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.fold.snapshot(at(self.now)).to_dict()["slowdowns"]
        return found

    def series(self, name: str) -> Any:
        return families(self.fold.snapshot(at(self.now)))[name]


def test_samples_that_took_no_time_are_none() -> None:
    training = Training()
    training.train(300, sampled=False)
    for _ in range(150):
        row = ("train", "train.py:1 main", "", "processor", 0.0, 10)
        training.fold.apply(MainThreadSampled(at(training.now), at(training.now + 1), (row,)))
        training.train(1, {"device": 0.35}, sampled=False)
    (slow,) = training.told()
    assert (slow["parts"], slow["line"], slow["line_reason"]) == ({}, None, NOT_SAMPLED)


@pytest.fixture
def training() -> Training:
    training = Training()
    training.train(300)
    return training


@pytest.mark.parametrize("activity", sorted(BEFORE))
def test_it_is_dated_sized_and_put_down_to_what_grew(training: Training, activity: str) -> None:
    assert training.told() == []
    assert training.series("jaxobs_slowdown_ratio") == {("train",): 1.0}
    training.train(110, {activity: BEFORE[activity] + 0.15})
    (slow,) = training.told()
    assert (slow["loop"], slow["over"], slow["activity"], slow["line"]) == (
        "train",
        False,
        activity,
        f"train.py:1 {activity}",
    )
    assert slow["began_seconds"] == pytest.approx(300, abs=15)
    assert slow["step_seconds_before"] == pytest.approx(0.5)
    assert slow["step_seconds"] == pytest.approx(0.65)
    part = slow["parts"][activity]
    assert (part["before"], part["after"]) == pytest.approx(
        (BEFORE[activity], BEFORE[activity] + 0.15), abs=0.01
    )
    assert slow["facts"] == []
    assert training.series("jaxobs_slowdown_ratio") == {("train",): pytest.approx(1.3)}
    assert training.series("jaxobs_slowdown_info") == {("train", activity, f"train.py:1 {activity}"): 1.0}
    assert training.series("jaxobs_slowdowns_total") == {("train",): 1.0}
    assert training.series("jaxobs_slowdown_timestamp_seconds")["train",] == pytest.approx(
        slow["began_timestamp_seconds"]
    )


def test_a_loop_that_is_over_is_slow_no_more(training: Training) -> None:
    """The loop of a trial that had ended was said to take so long a step for all the trials after it."""
    training.train(200, {"processor": 0.3})
    (slow,) = training.told()
    assert (slow["over"], training.series("jaxobs_slowdown_ratio")) == (
        False,
        {("train",): pytest.approx(1.4)},
    )
    ended, training.now = training.now, training.now + 3600
    (slow,) = training.told()
    assert slow["over"]
    assert slow["seconds"] == pytest.approx(ended - slow["began_seconds"], abs=1)
    found = families(training.fold.snapshot(at(training.now)))
    assert not {"jaxobs_slowdown_info", "jaxobs_slowdown_ratio"} & found.keys()
    training.train(10, {"processor": 0.3})
    (slow,) = training.told()
    assert (slow["over"], training.series("jaxobs_slowdown_ratio")) == (
        False,
        {("train",): pytest.approx(1.4)},
    )


def test_many_eager_compiles_do_not_hide_the_one_that_changed_the_pace(training: Training) -> None:
    compiled = Compilation("train_step", 2, 1, at(training.now), (), "off", "shape", (), None)
    training.fold.apply(compiled)
    for number in range(3, 300):
        eager = Compilation(EAGER, number, 1, at(training.now + 0.1), (), "off", None, (), None)
        training.fold.apply(eager)
    training.train(110, {"processor": BEFORE["processor"] + 0.15})
    (slow,) = training.told()
    assert any(fact.startswith("`train_step` was compiled again (shape)") for fact in slow["facts"])


def test_it_is_told_once_and_that_it_is_over_once(training: Training) -> None:
    training.train(110, {"device": 0.5})
    training.train(110, {"device": 0.5})
    (news,) = training.fold.slowdowns.take_news()
    assert news.ended is None
    training.train(110)
    (news,) = training.fold.slowdowns.take_news()
    assert news.ended is not None
    (slow,) = training.told()
    assert slow["over"]
    assert slow["seconds"] == pytest.approx(220, abs=15)
    assert training.series("jaxobs_slowdown_ratio") == {("train",): 1.0}
    assert "jaxobs_slowdown_timestamp_seconds" not in families(training.fold.snapshot(at(training.now)))


def test_a_loop_that_is_faster_but_not_as_fast_as_before_is_still_slower(training: Training) -> None:
    training.train(110, {"device": 0.7})
    training.train(200, {"device": 0.4})
    (slow,) = training.told()
    assert (slow["over"], slow["ratio"]) == (False, pytest.approx(1.4))


def test_compiles_checkpoints_phases_and_single_pauses_make_nothing_slower(training: Training) -> None:
    for _ in range(10):
        training.train(20, checkpoint=3.0)  # each step saves
        training.train(20)
        training.train(15.0, {"processor": 15.0})  # a pause that nobody marked
        training.train(20)
        begin = training.now
        training.fold.apply(PhaseStarted("evaluation", None, at(begin)))
        training.now += 50.0
        training.fold.apply(PhaseEnded("evaluation", None, at(begin), at(training.now), 0))
        training.train(20)
    assert training.told() == []


def test_a_thread_that_is_not_sampled_has_a_reason(training: Training) -> None:
    other = Training()
    other.train(300, sampled=False)
    other.train(110, {"device": 0.5}, sampled=False)
    (slow,) = other.told()
    assert (slow["activity"], slow["line"], slow["parts"]) == (None, None, {})
    assert slow["activity_reason"].startswith("no sample of the main thread's stack")


def test_what_else_changed_about_then_is_told_as_facts(training: Training) -> None:
    fold, now = training.fold, training.now
    fold.apply(MemorySampled(-1, 10**9, None, None, None, None, "", at(now - 200)))
    training.train(60)
    changed = training.now
    fold.apply(MemorySampled(-1, 2 * 10**9, None, None, None, None, "", at(changed + 1)))
    fold.apply(Compilation("f", 9, 1, at(changed - 5), (), "off", "shape", (), None))
    training.train(110, {"device": 0.5})
    (slow,) = training.told()
    assert slow["facts"][0].startswith("`f` was compiled again (shape) ")
    assert slow["facts"][-1] == "memory of the process grew from 954 MiB to 1.86 GiB"


def test_of_a_change_that_is_older_than_what_is_kept_nothing_is_said_to_have_changed_with_it() -> None:
    """Steps of 10 s that differ by a twentieth become a twentieth longer: 100 minutes make it certain."""
    fold, noise = new_fold(), random.Random(6)
    fold.slowdowns.alarms_per_hour = 1e-6
    loop, executables = fold.loops.named("train"), fold.executables
    for number in range(200 + 900):
        length = 10.0 * math.exp(noise.gauss(0.0, 0.05) + (0.05 if number >= 200 else 0.0))
        begin = number * 10
        loop.pace.blocks.append(
            Block(at(begin), 10.0, length, frozenset({1}), {HostLine("a", "", "host"): 10.0})
        )
        fold.slowdowns.look({"train": loop.pace}, State(), executables)
    (slow,) = fold.slowdowns.kept
    assert slow.ratio == pytest.approx(1.05, abs=0.02)
    assert (slow.facts, slow.parts, slow.reason) == ((), {}, FORGOTTEN)


def test_a_slowdown_that_lasts_is_kept_beside_later_ones_that_are_over() -> None:
    """The training was told to be as fast as ever after its evaluation had been slow for a while five times."""
    fold = new_fold()
    train, evaluation = fold.loops.named("train"), fold.loops.named("eval")

    def run(loop: Loop, begin: int, step_seconds: float) -> None:
        for number in range(begin, begin + 60):
            block = Block(at(10 * number), 10.0, step_seconds, frozenset(), {})
            loop.pace.blocks.append(block)
            fold.slowdowns.look({loop.name: loop.pace}, State(), fold.executables)

    run(train, 0, 1.0)
    run(train, 60, 1.5)
    for turn in range(6):
        run(evaluation, 120 * (turn + 1), 1.0)
        run(evaluation, 120 * (turn + 1) + 60, 2.0)
    run(evaluation, 840, 1.0)
    assert fold.slowdowns.count == {"train": 1, "eval": 6}
    assert fold.slowdowns.ratio("train") == pytest.approx(1.5)
    assert fold.slowdowns.ratio("eval") == 1.0


def test_with_a_rate_of_zero_nothing_is_tested(training: Training) -> None:
    training.fold.slowdowns.alarms_per_hour = 0.0
    training.train(110, {"device": 0.7})
    assert training.told() == []


def test_batches_of_another_length_are_told_once_and_not_again_when_they_come_back(
    training: Training,
) -> None:
    for _ in range(3):
        training.train(120, {"device": 0.5}, run=8)
        training.train(300)
    assert [slow["step_seconds"] for slow in training.told()] == [pytest.approx(0.8)]
    training.train(120, {"device": 0.7}, run=8)
    assert [slow["step_seconds"] for slow in training.told()] == [pytest.approx(0.8), pytest.approx(1.0)]


def test_steps_of_half_a_minute_are_found_too() -> None:
    training = Training()
    training.train(3600, {"device": 30.0})
    training.train(750, {"device": 60.0})  # four blocks: three may be chance, where forty are known
    (slow,) = training.told()
    assert slow["ratio"] == pytest.approx(2.0, rel=0.05)
    assert SECOND * slow["began_seconds"] == pytest.approx(SECOND * 3600, abs=100 * SECOND)
