"""The phases of a compilation, and those under way on a thread."""

from __future__ import annotations

import threading
from dataclasses import dataclass

PHASES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "backend",
}


@dataclass(slots=True)
class Phase:
    """A phase under way; `inner` is the time of the phases nested in it so far, in nanoseconds."""

    name: str
    function: str
    start: int
    inner: int = 0


class ThreadState(threading.local):
    """The phases under way on one thread, and those that ended since its last executable."""

    def __init__(self) -> None:
        self.stack: list[Phase] = []
        self.ended: dict[tuple[str, str], tuple[int, int]] = {}
        self.eager: set[str] = set()
        self.pmapped: dict[str, str] = {}
        self.cache = "off"
        self.saved: float | None = None
        self.began_anew = 0
