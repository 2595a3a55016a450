"""Connects our steps with JAX's own step annotations, in both directions.

A script's `StepTraceAnnotation` marks a step of ours, and a step of ours carries an annotation while a profiler session
is active, so that a trace shows it; a probe says when one is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxobs.plugin.wrapping import replace
from jaxobs.probe.steps.loops import Loops
from jaxobs.probe.steps.marks import StepMark

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
    begin = contained(lambda annotation: _begin(loops, annotation))
    end = contained(_end)

    def initialised(self: Any, name: str, **kwargs: Any) -> None:
        vars(self)[_LOOP] = name
        initialise(self, name, **kwargs)

    def entered(self: Any) -> Any:
        result = enter(self)
        begin(self)
        return result

    def left(self: Any, *error: Any) -> Any:
        end(self, error)
        return leave(self, *error)

    return replace(Annotation, {"__init__": initialised, "__enter__": entered, "__exit__": left})


def _begin(loops: Loops, annotation: Any) -> None:
    if loops.current.around() is None:
        mark = StepMark(loops, vars(annotation)[_LOOP], None, None, annotated=False)
        vars(annotation)[_MARK] = mark
        mark.__enter__()


def _end(annotation: Any, error: tuple[Any, ...]) -> None:
    mark = vars(annotation).pop(_MARK, None)
    if mark is not None:
        mark.__exit__(*error)
