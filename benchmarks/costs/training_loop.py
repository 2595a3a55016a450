"""Step time with jaxobs over step time without, in loops of 0.1 to 100 ms a step: `make benchmark NAME=training_loop`.

That takes 44 minutes.

One process makes steps that are observed for a tenth of a second, plain for two, observed for one, and so on, so that
its memory lies in the same places in both. The agent is suspended in plain blocks, so that all it does falls into the
observed ones. The threads of jaxobs in the job cannot be suspended: what they take in plain blocks is told beside, as
a share of a core that no ratio holds. Observed is with the defaults: steps marked, function watched, loss recorded. A
ratio is of a group of four blocks; *mean* holds rare work too, such as profiler windows. The first minute from
`instrument()` on does not count; `one-free` leaves one core to others.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.costs.processes import Asked, agents_of, answer
from benchmarks.paired import mean, median
from benchmarks.truths import Figure, Rows, interval

CORES = {"every": 150.0, "one-free": 60.0}
"""Seconds after the first minute: where the job uses every core, what else the machine does falls into the ratio more."""

TARGETS = {0.1: (88, 2), 1.0: (320, 1), 10.0: (512, 2), 100.0: (1024, 3)}
"""Width and layers of the model for steps of about so many milliseconds on two cores."""

LOSS_READ_EVERY = 10
"""As often as training scripts print their loss; the host runs ahead in between. Of long steps each one's is read."""
LONG_STEP_MILLISECONDS = 50.0

BLOCK_SECONDS = 0.1
"""Short enough that the machine does not change from block to block, long beside what a switch of blocks costs."""
FIRST_MINUTE_SECONDS = 60.0

INTERVAL_SECONDS = 2
"""Twice the default: the agent is suspended half of the time, and so has a turn for each second in which it runs, as by
default. With one a second all that it does at its turns counted twice."""

MAX_RATIO = {"every": 1.02, "one-free": 1.005}
"""The upper end of the interval, of steps of 1 ms and more."""
MAX_RATIO_OF_SHORT = 1.03
"""The median."""
SHORT = 0.1


def train_step(width: int, layers: int) -> tuple[Any, Any, Any]:
    """A jitted step of a small multilayer perceptron, its weights and its batch."""
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, batch: Any) -> Any:
        hidden = batch
        for _ in range(layers):
            hidden = jnp.tanh(hidden @ weights)
        return jnp.mean((hidden - batch) ** 2)

    def step(weights: Any, batch: Any) -> Any:
        value, slope = jax.value_and_grad(loss)(weights, batch)
        return weights - 0.001 * slope, value

    key = jax.random.key(0)
    weights = jax.random.normal(key, (width, width)) / width
    batch = jax.random.normal(key, (width, width)) / width
    return jax.jit(step, donate_argnums=0), weights, batch


Block = Callable[[Any], Any]
"""Makes the steps of a block with these weights, and gives the new ones; the device has nothing left to do then."""


class Blocks(NamedTuple):
    """Steps of about so many milliseconds, in blocks of a tenth of a second."""

    step: Any
    batch: Any
    steps: int
    read_every: int

    def plain(self, weights: Any) -> Any:
        """A block with nothing of jaxobs."""
        for done in range(1, self.steps + 1):
            weights, loss = self.step(weights, self.batch)
            if done % self.read_every == 0:
                float(loss)
        return weights

    def observed(self) -> Block:
        """Blocks with everything of jaxobs; their loop is one loop over all of them."""
        import jaxobs

        observer = jaxobs.instrument()
        watched, marks = observer.watch(self.step), iter(observer.steps(itertools.count(), examples=256))

        def block(weights: Any) -> Any:
            for done in range(1, self.steps + 1):
                next(marks)
                weights, loss = watched(weights, self.batch)
                observer.record(loss=loss)
                if done % self.read_every == 0:
                    float(loss)
            return weights

        return block


def blocks_of(step: Any, batch: Any, milliseconds: float) -> Blocks:
    """As many steps as fill a block."""
    read_every = LOSS_READ_EVERY if milliseconds < LONG_STEP_MILLISECONDS else 1
    reads = max(1, round(BLOCK_SECONDS * 1e3 / milliseconds / read_every))
    return Blocks(step, batch, read_every * reads, read_every)


class Alternated(NamedTuple):
    """Observed over plain, in groups of four blocks; seconds of a plain block; of a core, the threads in the job."""

    ratios: list[float]
    plain_seconds: float
    threads: float


def alternate(observed: Block, plain: Block, weights: Any, seconds: float) -> tuple[Any, Alternated]:
    """The weights, and what was found, in an order in which steady changes fall on both alike."""
    from jaxobs.plugin.threads import living

    agents = agents_of(os.getpid())
    threads = [Path(f"/proc/self/task/{thread.native}/schedstat") for thread in living()]

    def processor_seconds() -> float:
        return sum(int(thread.read_text().split()[0]) for thread in threads if thread.exists()) / 1e9

    ratios, plain_blocks, of_threads = [], [], 0.0
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            took = {True: 0.0, False: 0.0}
            for is_observed in (True, False, False, True):
                for agent in agents:
                    agent.send_signal(signal.SIGCONT if is_observed else signal.SIGSTOP)
                before, began = processor_seconds(), time.perf_counter()
                weights = (observed if is_observed else plain)(weights)
                took[is_observed] += time.perf_counter() - began
                of_threads += 0.0 if is_observed else processor_seconds() - before
            ratios.append(took[True] / took[False])
            plain_blocks.append(took[False] / 2)
    finally:
        for agent in agents:
            agent.send_signal(signal.SIGCONT)
    return weights, Alternated(ratios, median(plain_blocks).middle, of_threads / (2 * sum(plain_blocks)))


def in_a_process(milliseconds: float, how: str, seconds: float) -> None:
    """The first minute and so many seconds after it, with `jaxobs` or `plain` for a control."""
    step, weights, batch = train_step(*TARGETS[milliseconds])
    blocks = blocks_of(step, batch, milliseconds)
    observed = blocks.observed() if how == "jaxobs" else blocks.plain
    weights, _ = alternate(observed, blocks.plain, weights, FIRST_MINUTE_SECONDS)
    _, found = alternate(observed, blocks.plain, weights, seconds)
    answer([found.ratios, found.plain_seconds / blocks.steps, found.threads])


def measured(milliseconds: float, cores: str, how: str) -> Alternated:
    """What was found of a loop, with `jaxobs`, or `plain` for a control."""
    environment = {"JAXOBS_INTERVAL": str(INTERVAL_SECONDS)}
    if cores == "one-free":
        count = max(1, (os.cpu_count() or 1) - 1)
        single = "--xla_cpu_multi_thread_eigen=false" if count == 1 else ""
        environment |= {"NPROC": str(count), "XLA_FLAGS": single}
    with Asked(__name__, how, str(milliseconds), str(CORES[cores]), **environment) as process:
        return Alternated(*process.hear())


def measure() -> Rows:
    """All loops, with every core and with one less."""
    for cores, milliseconds in itertools.product(CORES, TARGETS):
        control, ours = (measured(milliseconds, cores, how) for how in ("plain", "jaxobs"))
        limit = (0.0, MAX_RATIO_OF_SHORT if milliseconds <= SHORT else MAX_RATIO[cores])
        middle, of_short = median(ours.ratios), milliseconds <= SHORT
        yield (
            f"{milliseconds:g} ms, {cores}",
            [
                Figure("step", ours.plain_seconds, unit="s"),
                interval("with jaxobs", middle, between=limit if of_short else None),
                Figure("its upper end", middle.high, between=None if of_short else limit),
                interval("mean", mean(ours.ratios)),
                interval("control", median(control.ratios)),
                Figure("threads", 100 * ours.threads, unit="%"),
            ],
        )


if __name__ == "__main__":
    in_a_process(float(sys.argv[2]), sys.argv[1], float(sys.argv[3]))
