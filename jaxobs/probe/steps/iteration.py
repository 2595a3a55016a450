"""Steps that are the turns of an iteration: `for batch in obs.steps(batches)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from jaxobs.flow.ring import PADDING
from jaxobs.jax_compat.objects import has_any, name_of
from jaxobs.model.clock import now
from jaxobs.model.events import LoopEnded, LoopEntered
from jaxobs.probe.steps.loops import SLOW, Loops, Step
from jaxobs.probe.steps.values import amount, as_name, given_amount

Item = TypeVar("Item")


Amount = float | Callable[[Any], float] | None
"""Examples or tokens of a step: a number, a function of the item, or None where the user did not say."""


class Entry:
    """One pass through a loop: what was under way before it, and the `Step` that all its turns use."""

    def __init__(self, loops: Loops, loop: str, flops: float | None) -> None:
        self.loops = loops
        self.state = loops.state(loop)
        loops.declare(self.state, flops)
        self.step = Step(self.state)
        self.outer, self.claimed = loops.current.around(), loops.current.claimed
        self.at = now()
        self.first = self.state.steps
        self.state.enter(self.first, self.at, self.state.passed)
        self.state.begin(self.step, self.at)
        loops.ring.emit(LoopEntered(self.state.name, self.at))

    def leave(
        self, start: int, handed_on: int | None, amounts: tuple[float | None, float | None], annotation: Any
    ) -> None:
        """End the pass. The loop is exhausted, or was left by `break` or an exception, which look the same from here.

        The last turn began at `start`, and its item was handed to the user at `handed_on`; None: no turn's body is
        under way. The turn counts if it ran a watched function, and as failed if one raised in it.
        """
        loops, state, step = self.loops, self.state, self.step
        if loops.over:  # perhaps the interpreter ends, and modules are empty already
            return
        left = LoopEnded(state.name, now(), 0)
        try:
            if annotation is not None:
                annotation.__exit__(None, None, None)
            end = now()
            body = 0
            if handed_on is not None and (step.run or step.failed):
                amounts = (None, None) if step.failed else amounts
                loops.end_step(state, step, start, end, 0, handed_on - start, amounts)
                start = end
            elif handed_on is not None:
                body = end - handed_on  # the turn does not count, so its time goes to what is around the loop
            state.last_end = None
            state.passed = state.steps - self.first
            state.leave(end)
            if state.last is not None:
                loops.left()
            if self.outer is not None:
                self.outer.claim(end - self.at - body)
            loops.current.claimed = self.claimed + end - self.at - body
            left = LoopEnded(state.name, now(), end - start - body)
        finally:  # also where a signal handler raises: the end of the loop must be reported
            loops.ring.extend((left, *PADDING))
            loops.ring.advance()


class Steps(Generic[Item]):
    """What `obs.steps(iterable)` returns: iterable any number of times, with the length of what it wraps."""

    def __init__(
        self,
        loops: Loops,
        iterable: Iterable[Item],
        loop: str,
        examples: Amount,
        tokens: Amount,
        flops: float | None = None,
    ) -> None:
        if not has_any(type(iterable), "__iter__", "__getitem__"):
            # Testing with `iter()` would start the workers of a data loader twice.
            raise TypeError(f"{name_of(type(iterable))!r} object is not iterable")
        self._loops = loops
        self._iterable = iterable
        self._loop = as_name(loop)
        ended = loops.steps_ended
        self._counts = tuple(count if callable(count) else None for count in (examples, tokens))
        self._amounts = (
            None if callable(examples) else given_amount("examples", examples, ended),
            None if callable(tokens) else given_amount("tokens", tokens, ended),
        )
        self._flops = given_amount("flops", flops, ended)

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]  # raises TypeError just as the iterable itself does

    def __bool__(self) -> bool:
        return bool(self._iterable)  # a generator is true, and has no length

    def __iter__(self) -> Iterator[Item]:  # hot: calling a function for a part costs as much as the part
        """Yield the items and time the turns. No reference to an item is kept: the user's `del batch` must free it."""
        loops, current = self._loops, self._loops.current
        extend, advance = loops.ring.extend, loops.ring.advance
        count_examples, count_tokens = self._counts
        examples, tokens = self._amounts
        entry = Entry(loops, self._loop, self._flops)
        state, step, start = entry.state, entry.step, entry.at
        name, thread, later_runs = state.name, step.thread, step.later_runs
        slow_after, until, before = SLOW * state.average, state.plain_until, state.plain_before
        handed_on = annotation = None
        try:
            iterator = iter(self._iterable)
            current.step = step
            for item in iterator:
                ready = now()
                if count_examples is not None:
                    examples = amount(count_examples, item)
                if count_tokens is not None:
                    tokens = amount(count_tokens, item)
                if loops.profiler_session is not None:
                    annotation = loops.annotate(name, step.number)
                handed_on = ready
                yield (item, item := None)[0]  # type: ignore[assignment]  # never seen as None
                handed_on = None
                if annotation is not None:
                    annotation.__exit__(None, None, None)
                    annotation = None
                end = now()
                number = state.steps
                if number < until and step.plain and end < before and end - start < slow_after:
                    # What `end_step` does, for a step that has nothing to report but its times and runs.
                    runs = step.runs() if later_runs else step.run
                    extend(
                        (name, number, start, end, 0, ready - start, step.dispatch, examples, tokens, thread, runs)
                    )  # fmt: skip
                    advance()
                    state.steps = number + 1
                else:
                    loops.end_step(state, step, start, end, 0, ready - start, (examples, tokens))
                    slow_after, until, before = SLOW * state.average, state.plain_until, state.plain_before
                start = end
                step.dispatch = step.run = 0
                if later_runs:
                    later_runs.clear()
                step.number = number + 1
                current.step = step
        finally:
            if current.step is step:  # else this generator was dropped while something else was under way
                current.step = entry.outer  # first: a signal handler may raise after any call
            entry.leave(start, handed_on, (examples, tokens), annotation)
