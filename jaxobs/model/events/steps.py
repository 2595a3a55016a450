"""Events of the loops, steps and phases that the user marked, and of the values that the user recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.events.attributes import SpanContext

LONGEST_GAP = 60 * NANOSECONDS
"""Longest pause in nanoseconds between two steps, or two calls, that still counts as the loop's own time: a longer one is
somebody thinking in a notebook, not training. The time of a loop that has ended no step for longer goes elsewhere."""

RECORDED_NAMES = 200
"""Most names of the user's own values: they become a label, so they must not contain step numbers."""


class StepEnded(NamedTuple):
    """One iteration of the user's loop.

    `gap` lies before `start`: time since the loop's previous step when the user's code came between the two.
    `nested` nanoseconds of [start, end] belong to inner loops and to phases other than a checkpoint.
    `runs` lists the watched calls in order: an executable's number, or a negative number (see `FunctionWatched`)
    where it is not visible which executable ran.
    """

    loop: str
    step: int
    start: int
    end: int
    gap: int
    input_wait: int
    dispatch: int
    nested: int
    checkpoint: int
    examples: float | None
    tokens: float | None
    failed: bool
    thread: int
    runs: tuple[int, ...]
    parent: SpanContext | None


class StepCompleted(NamedTuple):
    """The device finished the work of a step; found by polling, so `time` is late by at most `uncertainty`.

    Where `loop` is `UNMARKED`, `step` is the number of a call.
    """

    loop: str
    step: int
    time: int
    uncertainty: int


class StepUnseen(NamedTuple):
    """No output of a call in step `step` of `loop` can be polled, so the end of its work on the device is unknown.

    Emitted at most once a second. `loop` as in `StepCompleted`.
    """

    loop: str
    step: int
    time: int


class TurnsAsked(NamedTuple):
    """At the end of `asked` turns of a loop since the last such event an output was asked for: `ready` were finished.

    Turns are chosen by count (each nth step), so their share is that of all turns. Where an output was finished the
    device was idle until the next call. `loop` as in `StepCompleted`.
    """

    loop: str
    asked: int
    ready: int
    time: int


class LoopDeclared(NamedTuple):
    """The user's own count of a loop's work: model FLOPs of one step on all of this process's devices together."""

    loop: str
    model_flops: float
    time: int


class LoopEntered(NamedTuple):
    """The iteration of a loop began: its first step is under way, and may wait for its first item or compile."""

    loop: str
    time: int


class LoopEnded(NamedTuple):
    """The iteration of a loop is over (exhausted or left); `input_wait`: the wait for an item that never came."""

    loop: str
    time: int
    input_wait: int


class PhaseStarted(NamedTuple):
    """A phase that the user named began; `inside` as in `PhaseEnded`, whose `start` is this `time`."""

    phase: str
    inside: str | None
    time: int


class PhaseEnded(NamedTuple):
    """A phase that the user named ended: `checkpoint`, `evaluation`, `initialisation` or any other word.

    `inside` is the loop in whose step the phase lay, None outside steps. `nested` belongs to loops inside the phase.
    """

    phase: str
    inside: str | None
    start: int
    end: int
    nested: int


class Recorded(NamedTuple):
    """A value that the user recorded, such as a loss."""

    loop: str
    name: str
    value: float
    time: int


StepRows = list[Any]
"""Plain steps as the hot path notes them: consecutive rows of ROW_LENGTH values, which are `loop`, `step`, `start`,
`end`, `gap`, `input_wait`, `dispatch`, `examples`, `tokens`, `thread` of `StepEnded`, and `runs`, which is 0 where
nothing ran and a bare number where one thing did. A plain step is one whose other fields have their defaults."""

ROW_LENGTH = 11

UNMARKED = ""
"""Value of `loop` in a row that is no step but a call of a watched function outside any, on the main thread or on one
that trains in its place. `step` then counts such calls from 1 on, `dispatch` is the time of the call, and the agent
finds the loops that the calls form."""


def steps_of_rows(rows: StepRows) -> Iterator[StepEnded]:
    """The steps in these rows. Raises ValueError where the last row is incomplete."""
    if len(rows) % ROW_LENGTH:
        raise ValueError(f"{len(rows)} values are no whole rows of {ROW_LENGTH}")
    for at in range(0, len(rows), ROW_LENGTH):
        loop, step, start, end, gap, wait, dispatch, examples, tokens, thread, runs = rows[
            at : at + ROW_LENGTH
        ]
        ran = runs if isinstance(runs, tuple) else (runs,) if runs else ()
        yield StepEnded(
            loop, step, start, end, gap, wait, dispatch, 0, 0, examples, tokens, False, thread, ran, None
        )
