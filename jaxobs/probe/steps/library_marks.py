"""Phases that a library's own calls mark, for scripts that mark none: a checkpoint that is saved, a state restored."""

from __future__ import annotations

import threading
from types import TracebackType

from jaxobs.probe.steps.loops import Loops
from jaxobs.probe.steps.marks import PhaseMark
from jaxobs.vocabulary.wall_time import CHECKPOINT

INITIALISATION = "initialisation"


def on_main_thread() -> bool:
    """Whether this is the thread that the job waits for: what a library does on others delays no step."""
    return threading.current_thread() is threading.main_thread()


class LibraryPhase:
    """A phase of a library, on the main thread. The script's own word wins, and of nested calls the outermost counts."""

    def __init__(self, loops: Loops, name: str, *, tentative: bool) -> None:
        self._loops = loops
        self._name = name
        self._tentative = tentative
        self._mark: PhaseMark | None = None

    def __enter__(self) -> None:
        if not on_main_thread():
            return
        around = self._loops.current.phase
        while around is not None:
            if around.name in {self._name, CHECKPOINT, INITIALISATION}:
                if not self._tentative:
                    around.confirm()
                return
            around = around.around
        self._mark = PhaseMark(self._loops, self._name, tentative=self._tentative)
        self._mark.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(kind, error, traceback)
