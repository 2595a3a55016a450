"""Steps while JAX traces: watched functions that are called run nothing, so their marks go to a step nobody sees."""

from __future__ import annotations

import threading

from jaxobs.probe.steps.loops import Current, Step


class _Suspended(threading.local):
    """The step that this thread's traces have interrupted, and how many of them are under way."""

    depth: int = 0
    step: Step | None = None


class Tracing:
    """Told where each trace begins and ends, on its thread."""

    def __init__(self, current: Current) -> None:
        self._current = current
        self._suspended = _Suspended()

    def began(self) -> None:
        """A trace may begin within another."""
        suspended = self._suspended
        if suspended.depth == 0:
            suspended.step = self._current.step
            self.hide_step()
        suspended.depth += 1

    def ended(self) -> None:
        """After the outermost, the step goes on that was under way; an end without a beginning changes nothing."""
        suspended = self._suspended
        suspended.depth = max(0, suspended.depth - 1)
        step = self._current.step
        if suspended.depth == 0 and step is not None and step.hidden:
            self._current.step, suspended.step = suspended.step, None

    def hide_step(self) -> None:
        """What this thread runs from now on belongs to no step that counts."""
        self._current.step = hidden = Step("")
        hidden.hidden = True
