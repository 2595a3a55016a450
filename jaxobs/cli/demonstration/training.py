"""The training loop of the demo, written as users of jaxobs write theirs."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxobs import Observer
from jaxobs.cli.demonstration.model import Size
from jaxobs.cli.demonstration.optimizer import TrainingState, evaluation_step, initial_state, train_step
from jaxobs.cli.demonstration.text import Text, windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

EVALUATIONS = 4
"""Evaluations during the training, at equal distances, in addition to one before and one after it."""

EVALUATION_BATCHES = 4
_SHORT_SHARE = 1 / 3
"""Share of the time with twice as many windows of half the length: short contexts are learnt first and cheaply. The
change of shape makes XLA compile anew, as it does wherever the shape of a batch changes."""

_CHECKPOINT_AT = 0.7
_AHEAD = 2
"""Most steps whose loss is not read yet, so that the device never waits for the host and the host is not far ahead."""

Watcher = Callable[[float, int, float], None]
"""Called with the share of the time that is over, the number of steps done, and the newest known loss in nats."""


@dataclass(slots=True)
class Outcome:
    """The outcome of training. Losses are in nats per byte; there are none if it was interrupted in the first step."""

    losses: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)
    parameters: int = 0
    seconds: float = 0.0
    """The time from the first evaluation to the last, including compiles."""
    interrupted: bool = False


class Training:
    """One run of the demo, observed by `observer`; `progress` is called with its progress."""

    def __init__(self, observer: Observer, text: Text, size: Size, seconds: float, progress: Watcher) -> None:
        self._observer, self._text, self._size = observer, text, size
        self._seconds, self._progress = seconds, progress
        self._train_step = observer.watch(train_step)
        self._evaluation_step = observer.watch(evaluation_step)
        self._began: float | None = None
        self._outstanding: deque[jax.Array] = deque()
        self.outcome = Outcome()

    def run(self, checkpoint: Path) -> Outcome:
        """Train for the time given, and write the parameters once to `checkpoint`. Ctrl-C ends it early."""
        outcome = self.outcome
        with self._observer.phase("initialisation"):
            state = initial_state(jax.random.key(0), self._size)
        outcome.parameters = sum(leaf.size for leaf in jax.tree.leaves(state.parameters))
        began = time.monotonic()
        try:
            state = self._train(state, checkpoint)
            outcome.held_out.append(self._evaluate(state))
        except KeyboardInterrupt:
            outcome.interrupted = True
        outcome.seconds = time.monotonic() - began
        return outcome

    def _train(self, state: TrainingState, checkpoint: Path) -> TrainingState:
        outcome = self.outcome
        outcome.held_out.append(self._evaluate(state))
        checkpoint_due = True
        for tokens in self._observer.steps(self._batches(), tokens=_tokens):
            state, loss = self._train_step(state, tokens, self._size)
            self._observer.record(loss=loss)
            self._outstanding.append(loss)
            self._read_losses(_AHEAD)
            due = min(int(self._share() * (EVALUATIONS + 1)), EVALUATIONS)
            if len(outcome.held_out) <= due:
                self._read_losses(0)
                outcome.held_out.append(self._evaluate(state))
            if checkpoint_due and self._share() >= _CHECKPOINT_AT:
                checkpoint_due = False
                self._read_losses(0)
                with self._observer.phase("checkpoint"):
                    write_checkpoint(state, checkpoint)
        self._read_losses(0)
        return state

    def _read_losses(self, ahead: int) -> None:
        """Read losses until at most `ahead` are outstanding; with 0, what follows is not charged for waiting steps."""
        while len(self._outstanding) > ahead:
            self.outcome.losses.append(float(self._outstanding.popleft()))
            self._progress(self._share(), len(self.outcome.losses), self.outcome.losses[-1])

    def _evaluate(self, state: TrainingState) -> float:
        """The mean loss in nats on the same few windows of the held-out text."""
        random = np.random.default_rng(1)
        size = self._size
        batches = (
            windows(self._text.held_out, size.examples, size.length, random)
            for _ in range(EVALUATION_BATCHES)
        )
        losses = [
            float(self._evaluation_step(state.parameters, tokens, size))
            for tokens in self._observer.steps(batches, loop="eval", tokens=_tokens)
        ]
        return float(np.mean(losses))

    def _batches(self) -> Iterator[NDArray[np.int32]]:
        """Batches of short windows, then of long ones, until the time is over; at least one of each."""
        random = np.random.default_rng(0)
        text, size = self._text.training, self._size
        short, long = (2 * size.examples, size.length // 2), (size.examples, size.length)
        yield windows(text, *short, random)
        # The time begins after the first step, whose compile takes seconds or minutes.
        self._began = time.monotonic()
        for shape, until in ((short, _SHORT_SHARE), (long, 1.0)):
            yield windows(text, *shape, random)
            while self._share() < until:
                yield windows(text, *shape, random)

    def _share(self) -> float:
        """The share of the training time that is over, from 0 to 1; 0 during the first step."""
        return 0.0 if self._began is None else (time.monotonic() - self._began) / self._seconds


def write_checkpoint(state: TrainingState, path: Path) -> None:
    """Write the parameters to a file that `numpy.load` reads; it is on the disk on return. Raises OSError."""
    arrays: dict[str, Any] = {
        jax.tree_util.keystr(key): leaf for key, leaf in jax.tree.leaves_with_path(state.parameters)
    }
    with path.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())


def _tokens(batch: NDArray[np.int32]) -> float:
    """The number of bytes to predict in int32[examples, length + 1]."""
    examples, bytes_read = batch.shape
    return float(examples * (bytes_read - 1))
