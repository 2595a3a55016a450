"""Steps and phases marked by `with`, by JAX's own step annotations, or by calls of a library.

A script's `StepTraceAnnotation` marks a step of ours, and a step of ours carries an annotation while a profiler session
is active, so that a trace shows it; a probe says when one is. Phases that a library marks (saving a checkpoint, restoring
a state) are for scripts that mark none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from jaxobs.flow.ring import PADDING
from jaxobs.model.clock import now
from jaxobs.model.events import MAX_GAP, LoopEntered, PhaseEnded, PhaseStarted
from jaxobs.plugin.wrapping import replace, standing_in
from jaxobs.probe.steps.loops import Loops, Step
from jaxobs.probe.steps.values import as_name, given_amount
from jaxobs.vocabulary.words import CHECKPOINT

LASTING = 10_000_000
"""Nanoseconds after which a tentative phase counts as one: twice as long as another thread may keep Python's
interpreter lock (`sys.getswitchinterval()`), so that a call which does nothing is not reported as a phase."""


class StepMark:
    """One step marked by `with obs.step(): …`. Time between two such steps belongs to the loop, as its gap."""

    def __init__(
        self,
        loops: Loops,
        loop: str,
        examples: float | None,
        tokens: float | None,
        flops: float | None = None,
        *,
        annotated: bool = True,
    ) -> None:
        self._loops = loops
        self._loop = as_name(loop)
        ended = loops.steps_ended
        self._amounts = (given_amount("examples", examples, ended), given_amount("tokens", tokens, ended))
        self._flops = given_amount("flops", flops, ended)
        self._annotated = annotated
        self._annotation: Any = None

    def __enter__(self) -> None:
        current = self._loops.current
        self._state = state = self._loops.state(self._loop)
        self._loops.declare(state, self._flops)
        # No name here for the current step, whose references `around` counts.
        self._outer = None if current.step is None else current.around()
        self._claimed = current.claimed
        self._step = step = Step(state)
        self._start = start = now()
        if not state.steps:  # at a time after `start`, with which an iteration alone begins
            self._loops.ring.emit(LoopEntered(state.name, now()))
        state.begin(step, start)
        self._gap = 0
        here = state.thread == self._step.thread and state.phase is current.phase
        if state.last_end is not None and self._outer is None and here:
            # Phases and other loops since then keep their own time. Loops that alternate with this one also claim time
            # from before its last end, hence the maximum: nothing is left of the gap then.
            gap = max(0, start - state.last_end - (current.claimed - state.claimed_then))
            self._gap = gap if gap <= MAX_GAP else 0
        current.step = step
        if self._annotated:
            try:
                self._annotation = self._loops.annotate(self._loop, step.number)
            except BaseException:  # raised by a signal handler: `__exit__` is not called then
                current.step = self._outer
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._loops.over:  # perhaps the interpreter ends, and modules are empty already
            return
        current = self._loops.current
        # A step that has ended or gone on meanwhile, in another task of asyncio, is not around this one. A phase asks the
        # same: in a call that both would share a signal handler might raise before the step is put back.
        outer = self._outer if self._outer is None or self._outer.thread else None
        if current.step is outer is not None:
            outer = None
        else:
            current.step = outer  # first: a signal handler may raise after any call
        end = now()
        if self._annotation is not None:
            self._annotation.__exit__(kind, error, traceback)
        # A `break` out of a loop over a generator that has the mark raises GeneratorExit there.
        if kind is not None and kind is not GeneratorExit:
            self._step.fail()
            self._loops.failed(error, None)
        state, gap = self._state, self._gap
        self._loops.end_step(state, self._step, self._start, end, gap, 0, self._amounts)
        current.claimed = self._claimed + gap + end - self._start
        if outer is None:
            state.thread, state.phase, state.claimed_then = self._step.thread, current.phase, current.claimed
        else:
            outer.claim(end - self._start)
            state.last_end = None  # what follows is the outer step's own time
        self._step.thread = 0  # it has ended


class PhaseMark:
    """A named stretch of time: `with obs.phase("checkpoint"): …`.

    A tentative one marks a call that may turn out to do nothing: it counts once it is confirmed, or has lasted LASTING.
    """

    around: PhaseMark | None = None

    def __init__(self, loops: Loops, name: str, *, tentative: bool = False) -> None:
        self._loops = loops
        self.name = as_name(name)
        self._tentative = tentative

    def __enter__(self) -> None:
        current = self._loops.current
        self._outer = current.around()
        self._claimed = current.claimed
        if current.phase is not self and self._inside(current.phase) is None:  # not around itself
            self.around = current.phase
        self._start = now()
        current.step = None  # what runs in a phase is charged to the phase
        current.phase = self
        try:
            if not self._tentative:
                self._begin()
        except BaseException:  # raised by a signal handler: `__exit__` is not called then
            self.__exit__(None, None, None)
            raise

    def confirm(self) -> None:
        """Make a tentative phase a certain one, which began when it was entered."""
        if self._tentative:
            self._tentative = False
            self._begin()

    def _begin(self) -> None:
        inside = self._outer.state.name if self._outer is not None else None
        self._loops.ring.emit(PhaseStarted(self.name, inside, self._start))

    def _inside(self, innermost: PhaseMark | None) -> PhaseMark | None:
        """The phase that has this one around it, of those that are under way; None where there is none."""
        while innermost is not None and innermost.around is not self:
            innermost = innermost.around
        return innermost

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._loops.over:  # as in StepMark
            return
        current = self._loops.current
        outer = self._outer if self._outer is None or self._outer.thread else None  # as there
        if current.step is outer is not None:
            outer = None
        else:
            current.step = outer
        # With an error, a signal handler may have raised it on entering the `__exit__` of a phase within this one.
        if kind is not None or current.phase is self or current.innermost() is self:
            current.phase = self.around
        elif (later := self._inside(current.phase)) is not None:
            later.around = self.around  # it began later, and goes on
        if self._tentative and now() - self._start < LASTING:
            return  # too short to be a phase: its time stays with what is around it
        nested = current.claimed - self._claimed  # loops inside the phase keep their own time
        try:
            end = now()
            inside = outer.state.name if outer is not None else None
            event = PhaseEnded(self.name, inside, self._start, end, nested)
        except BaseException:  # raised by a signal handler: a phase whose beginning was reported must end
            if outer is not None:
                current.step = None  # as within the phase
            self.__exit__(None, None, None)
            raise
        # One call into C, during which no signal handler runs.
        self._loops.ring.extend((event, *PADDING))
        self._loops.ring.advance()
        if outer is not None:
            own = end - self._start - nested
            if self.name == CHECKPOINT:
                outer.claim(nested, own)
            else:
                outer.claim(nested + own)
        current.claimed = self._claimed + end - self._start


INITIALISATION = "initialisation"


def on_main_thread() -> bool:
    """Whether this is the main thread, which runs the steps: what a library does on others delays none of them."""
    return threading.get_ident() == threading.main_thread().ident


class LibraryPhase(PhaseMark):
    """A phase of a library, on the main thread. Within one of its name, a checkpoint or initialisation it is none."""

    _is_marked = False

    def __enter__(self) -> None:
        if not on_main_thread():
            return
        around = self._loops.current.phase
        while around is not None:
            if around.name in {self.name, CHECKPOINT, INITIALISATION}:
                if not self._tentative:
                    around.confirm()
                return
            around = around.around
        self._is_marked = True
        super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_marked:
            super().__exit__(kind, error, traceback)


_LOOP, _MARK = "_jaxobs_loop", "_jaxobs_mark"


def hook_annotations(
    loops: Loops, contained: Callable[[Callable[..., Any]], Callable[..., None]]
) -> Callable[[], None]:
    """Let `jax.profiler.StepTraceAnnotation` mark steps of the loop that it names, where no marked step is under way.

    The class object stays the same, because scripts may have imported it already: its methods are replaced by ones that
    also mark the step. `contained` wraps the marking so that it cannot raise. Returns a function that undoes all this.
    """
    from jax.profiler import StepTraceAnnotation as Annotation

    loops.annotation = Annotation
    initialise, enter, leave = Annotation.__init__, Annotation.__enter__, Annotation.__exit__

    @contained
    def begin(annotation: Any) -> None:
        if _LOOP in vars(annotation) and loops.current.around() is None:
            mark = StepMark(loops, vars(annotation)[_LOOP], None, None, annotated=False)
            vars(annotation)[_MARK] = mark
            mark.__enter__()

    @contained
    def end(annotation: Any, error: tuple[Any, ...]) -> None:
        mark = vars(annotation).pop(_MARK, None)
        if mark is not None:
            mark.__exit__(*error)

    @standing_in(initialise)
    def initialised(self: Any, *args: Any, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)
        vars(self)[_LOOP] = args[0] if args else kwargs["name"]

    @standing_in(enter)
    def entered(self: Any) -> Any:
        result = enter(self)
        begin(self)
        return result

    @standing_in(leave)
    def left(self: Any, *error: Any) -> Any:
        end(self, error)
        return leave(self, *error)

    return replace(Annotation, {"__init__": initialised, "__enter__": entered, "__exit__": left})
