"""Hides the step under way while JAX traces: watched functions called then run nothing and must not count in it."""

from __future__ import annotations

import threading

from jaxobs.probe.steps.loops import Current, Step


class _Suspended(threading.local):
    """The step that was under way on this thread when its outermost trace began, and how many traces are under way."""

    depth: int = 0
    step: Step | None = None


class Tracing:
    """Counts the traces under way on each thread; `began` and `ended` are called on the thread that traces."""

    def __init__(self, current: Current) -> None:
        self._current = current
        self._suspended = _Suspended()

    def began(self) -> None:
        """Hide the step, if this trace is not within another."""
        suspended = self._suspended
        if suspended.depth == 0:
            suspended.step = self._current.step
            self.hide_step()
        suspended.depth += 1

    def ended(self) -> None:
        """Restore the step after the outermost trace. An end without a beginning changes nothing."""
        suspended = self._suspended
        suspended.depth = max(0, suspended.depth - 1)
        step = self._current.step
        if suspended.depth == 0 and step is not None and step.hidden:
            self._current.step, suspended.step = suspended.step, None

    def hide_step(self) -> None:
        """Put a hidden step in the place of this thread's step: what runs from now on counts in no step."""
        self._current.step = hidden = Step("")
        hidden.hidden = True
