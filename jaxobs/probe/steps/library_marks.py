"""Phases marked by calls of a library, for scripts that mark none: saving a checkpoint, restoring a state."""

from __future__ import annotations

import threading
from types import TracebackType

from jaxobs.probe.steps.loops import Loops
from jaxobs.probe.steps.marks import PhaseMark
from jaxobs.vocabulary.words import CHECKPOINT

INITIALISATION = "initialisation"


def on_main_thread() -> bool:
    """Whether this is the main thread, which runs the steps: what a library does on others delays none of them."""
    return threading.get_ident() == threading.main_thread().ident


class LibraryPhase:
    """A phase of a library, on the main thread. Within one of its name, a checkpoint or initialisation it is none."""

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
