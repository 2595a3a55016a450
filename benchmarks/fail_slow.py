"""Whether a loop that becomes slower for good is found, dated and explained, and how often one that does not is accused.

    .venv/bin/python -m benchmarks.fail_slow [--hours 1000] [--seconds 60]

Records what a step of short trainings takes here, second by second: one that computes, one that mostly waits for its
input, one that mostly waits, as for an accelerator, with some work of its host, and one whose batches have two lengths.
Runs are made up of pieces of these, drawn at random, with a drift after the start, bursts, checkpoints, evaluations that
are marked and some that are not.
Those with a slowdown go as events through all that the agent derives, steady ones as stretches through what tests
them, as fast as it takes them. Exit status 1 where there are more false alarms than one in a thousand hours, or a
slowdown of five times the noise or more is not found, dated or explained.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from benchmarks.beside import without_settings
from benchmarks.truths import Figure, Table, options_of
from jaxobs.derive.loops.loop import Loop
from jaxobs.derive.loops.slowdowns import Slowdown, State
from jaxobs.derive.loops.stretches import Kind, Stretch
from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.events import LoopEntered, MainThreadSampled, StepCompleted, StepRows
from tests.derive.made_up import at, new_fold, step, waits

PROGRAM: Final = """
import json, random, sys, time, jax, jax.numpy as jnp
what, seconds = sys.argv[1], float(sys.argv[2])
turns = 20 if what == "compute" else 2
step = jax.jit(lambda x: jax.lax.fori_loop(0, turns, lambda _, x: jnp.tanh(x @ x), x))
x = step(jnp.full((256, 256), 0.01)).block_until_ready()
took, begin = [], time.perf_counter()
while (start := time.perf_counter()) - begin < seconds:
    if what == "input": time.sleep(0.08)
    if what == "host": time.sleep(0.06); sum(range(300_000))
    if what == "lengths": time.sleep(random.choice((0.2, 0.6)))
    x = step(x).block_until_ready()
    took.append(time.perf_counter() - start)
print(json.dumps(took))
"""
KINDS: Final = ("compute", "input", "host")
STEADY: Final = (*KINDS, "lengths")
"""With batches of two lengths steps are no noise about one level: nothing is asked of when such a run became slower."""

STEP: Final = 0.25
"""Seconds of a step of the runs that are made up."""

PARTS: Final = {"input": 0.2, "host": 0.2, "device": 0.6}
ACTIVITIES: Final = {"input": "marked_input", "host": "processor", "device": "device"}
"""Shares of a step, and what the loop's thread is seen to do in them."""

SAMPLES_A_SECOND: Final = 30
FACTORS: Final = (1.1, 1.3, 2.0)
RUN_HOURS: Final = 10.0
LATEST, NEAR = 120.0, 30.0
"""Seconds within which a slowdown must be found, and to which it must be dated."""

LARGE: Final = 5.0
"""Multiple of the noise from which on a slowdown must be found in time: by smaller ones the limit of the sum, about
eleven deviations, is not reached in so few blocks."""

BLOCK: Final = 10
"""Seconds of which the noise is that of their medians."""


def recorded(what: str, seconds: float) -> list[float]:
    """What a step takes in each second of a run, relative to the median of all of them."""
    command = [sys.executable, "-c", PROGRAM, what, str(seconds)]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=without_settings())
    took = np.array(json.loads(found.stdout))
    second = np.cumsum(took).astype(int)
    by_second = [float(took[second == each].mean()) for each in range(second[-1])]
    middle = statistics.median(by_second)
    return [each / middle for each in by_second]


class Slow(NamedTuple):
    """From `at` seconds on a step takes `factor` times as long, by a part that grows."""

    at: float = math.inf
    factor: float = 1.0
    part: str = "device"


class Run:
    """A run that is made up: each call of `go_on` is ten steps of it."""

    def __init__(self, noise: Sequence[float], seed: int, slow: Slow, *, waits: bool) -> None:
        self._noise = noise
        self._random = random.Random(seed)
        self._slow = slow
        self._waits = waits
        """Whether the host waits for the device in each step; else it is ahead, and completions are seen."""
        self.fold = new_fold()
        self.now = 0.0
        self._step = 0
        self._drift = self._random.uniform(-0.1, 0.1)
        self._burst_until, self._burst = 0.0, 1.0
        self._next_pause = 600.0
        self._relative = self._pieces()
        self.fold.apply(LoopEntered("train", at(0.0)))

    def _pieces(self) -> Iterator[float]:
        """The recorded seconds in pieces that keep their order, each from anywhere in the record."""
        while True:
            length = self._random.randint(10, 40)
            start = self._random.randrange(len(self._noise))
            yield from (self._noise[(start + at) % len(self._noise)] for at in range(length))

    def _seconds_of_a_step(self) -> float:
        drift = 1 + self._drift * math.exp(-self.now / 120)
        if self._random.random() < 10 * STEP / 900:
            self._burst_until = self.now + self._random.uniform(2, 30)
            self._burst = self._random.uniform(1.2, 3.0)
        burst = self._burst if self.now < self._burst_until else 1.0
        return STEP * next(self._relative) * drift * burst

    def go_on(self) -> None:
        """Ten steps; each ten minutes there is a checkpoint or an evaluation after them."""
        took, begin = self._seconds_of_a_step(), self.now
        grown = {word: share * took for word, share in PARTS.items()}
        if self.now >= self._slow.at:
            grown[self._slow.part] += (self._slow.factor - 1) * took
        rows: StepRows = []
        for _ in range(10):
            begin_of_step, self.now = self.now, self.now + sum(grown.values())
            start, end, wait = at(begin_of_step), at(self.now), round(grown["input"] * NANOSECONDS)
            rows += ["train", self._step, start, end, 0, wait, 0, None, None, 1, 7]
            self._step += 1
        self.fold.apply_steps(rows)
        paused, kind = self.now, self._pause()
        if kind is not None:
            nested, checkpoint = 20.0 * (kind == "nested"), 20.0 * (kind == "checkpoint")
            self.fold.apply(
                step(self._step, paused, self.now, nested=nested, checkpoint=checkpoint, runs=(7,))
            )
            self._step += 1
        completed = StepCompleted("train", self._step - 1, at(self.now), 0)
        self.fold.apply(waits(self.now) if self._waits else completed)
        self._sample(begin, grown)

    def _pause(self) -> str | None:
        """Each ten minutes one of twenty seconds, by turns a checkpoint, a marked evaluation, and one nobody marked."""
        if self.now <= self._next_pause:
            return None
        self.now += 20.0
        self._next_pause += 600.0
        return ("checkpoint", "nested", "")[round(self._next_pause / 600) % 3]

    def _sample(self, begin: float, grown: Mapping[str, float]) -> None:
        """What the sampler meets, at random moments."""
        samples = round(SAMPLES_A_SECOND * (self.now - begin))
        apart = (self.now - begin) / samples
        met = Counter(self._random.choices(list(grown), list(grown.values()), k=samples))
        rows = tuple(
            ("train", f"train.py:{len(word)} {word}", "", ACTIVITIES[word], count * apart, count)
            for word, count in met.items()
        )
        self.fold.apply(MainThreadSampled(at(begin), at(self.now), rows, 1))

    def pass_by(self) -> None:
        """Ten steps as what the loop makes of them, for a thousand hours of events would take as many minutes."""
        took = self._seconds_of_a_step()
        self.now += 10 * took
        stretches = [Stretch(Kind.SEEN, at(self.now), 10 * took, 10, runs=Counter({7: 10}))]
        kind = self._pause()
        if kind not in {None, "nested"}:  # phases lie in no stretch
            checkpoint = 20.0 * (kind == "checkpoint")
            stretches.append(Stretch(Kind.SEEN, at(self.now), 20.0 + took, 1, checkpoint=checkpoint))
        self._loop.pace.add(stretches)

    def look(self, *, update: bool) -> list[Slowdown]:
        """What the agent would find by now: of a snapshot this is the part that concerns it."""
        if update:
            self._loop.update(at(self.now))
        self.fold.slowdowns.look({"train": self._loop.pace}, State(), self.fold.executables)
        return self.fold.slowdowns.take_news()

    @property
    def _loop(self) -> Loop:
        return self.fold.loops.named("train")


def false_alarms(noises: Mapping[str, Sequence[float]], hours: float) -> Iterator[tuple[str, float, int]]:
    """By kind: its hours, and how often a lasting slowdown was told of."""
    for kind, noise in noises.items():
        told, lived = 0, 0.0
        while lived < hours / len(noises) * 3600:
            run = Run(noise, round(lived), Slow(), waits=round(lived) % 2 == 0)
            while run.now < RUN_HOURS * 3600:
                for _ in range(4):
                    run.pass_by()
                told += sum(each.ended is None for each in run.look(update=False))
            lived += run.now
            print(f"{kind}: {lived / 3600:.0f} h, {told} false alarms", file=sys.stderr, flush=True)
        yield kind, lived / 3600, told


def injected(noises: Mapping[str, Sequence[float]], count: int) -> Iterator[tuple[str, list[Figure]]]:
    """Slowdowns of each size and part in turn, somewhere between the fifth and the thirtieth minute."""
    for case in range(count):
        kind = KINDS[case % len(KINDS)]
        at = random.Random(case).uniform(300, 1800)
        slow = Slow(at, FACTORS[case // 3 % 3], list(PARTS)[(case + case // 9) % 3])
        run = Run(noises[kind], case, slow, waits=case % 2 == 0)
        found: Slowdown | None = None
        while run.now < slow.at + 600 and found is None:
            run.go_on()
            news = [each for each in run.look(update=True) if each.ended is None and run.now > slow.at]
            found = news[0] if news else None
        name = f"{slow.part} slower by {slow.factor - 1:.0%}, noise of {kind}"
        is_large = slow.factor - 1 >= LARGE * noise_of(noises[kind])
        yield name, figures(slow, found, run.now - slow.at, is_large=is_large)


def figures(slow: Slow, found: Slowdown | None, after: float, *, is_large: bool) -> list[Figure]:
    """What was found of a slowdown that was injected; held to its truth where that is large beside the noise."""
    if found is None:
        return [Figure("found", "no" if is_large else None, "yes", note="not within 600 s")]
    activity = ACTIVITIES[slow.part] if is_large else None
    dated = (found.began - at(slow.at)) / NANOSECONDS
    return [
        Figure("found after", after, between=(0.0, LATEST) if is_large else None, unit="s"),
        Figure("dated off by", dated, between=(-NEAR, NEAR) if is_large else None, unit="s"),
        Figure("thread was seen in", found.activity, activity, note=f"told as {found.ratio - 1:+.0%}"),
    ]


def noise_of(seconds: Sequence[float]) -> float:
    """The standard deviation of medians of ten seconds, as a share; of two of them at least."""
    blocks = [statistics.median(seconds[at : at + BLOCK]) for at in range(0, len(seconds) - BLOCK + 1, BLOCK)]
    return statistics.stdev(blocks)


def main() -> int:
    """Record, replay, judge."""
    parser = options_of(__doc__, only=False)
    parser.add_argument("--hours", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=60.0, help="that are recorded of each kind of noise")
    options = parser.parse_args()
    table = Table()
    noises = {kind: recorded(kind, options.seconds) for kind in STEADY}
    for kind, noise in noises.items():
        said = f"{len(noise)} seconds recorded"
        table.add(f"noise of {kind}", [Figure("deviation of 10 s medians", noise_of(noise), note=said)])
    for name, found in injected(noises, 20):
        table.add(name, found)
    alarms = list(false_alarms(noises, options.hours))
    hours, told = sum(lived for _, lived, _ in alarms), sum(count for _, _, count in alarms)
    said = ", ".join(f"{count} in {lived:.0f} h of {kind}" for kind, lived, count in alarms)
    table.add("steady runs", [Figure("false alarms", told, between=(0, max(1.0, hours / 1000)), note=said)])
    return table.status()


if __name__ == "__main__":
    sys.exit(main())
