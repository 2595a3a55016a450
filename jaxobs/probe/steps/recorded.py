"""Values that the user records: the newest of each name is read about once a second, off the training thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from jaxobs.jax_compat.arrays.readiness import is_askable, is_ready
from jaxobs.jax_compat.tracing import is_tracer
from jaxobs.model.clock import now
from jaxobs.model.events import RECORDED_NAMES, Recorded
from jaxobs.plugin.guard import described
from jaxobs.probe.steps.loops import Current
from jaxobs.probe.steps.plain_values import as_name

NUMBERS = (float, int, bool)

MAX_REFUSALS = 20
"""Names of which it is said that their values cannot be recorded: who has more has seen enough."""

NUMPY = "numpy"
ARRAYS = ("jaxlib.", NUMPY)
"""Modules whose types are remembered as no tracers. Types of the user's are not: that would keep them alive."""


class RecordedValues:
    """Values by loop and name. `record` is on the hot path: one dictionary store a value."""

    def __init__(self, current: Current, log: Callable[[str], None]) -> None:
        self._current = current
        self._log = log
        self._newest: dict[tuple[str, str], tuple[int, Any]] = {}
        self._waiting: dict[tuple[str, str], tuple[int, Any]] = {}
        self._names: dict[tuple[str, str], tuple[str, str]] = {}
        """Loop and name as they are given, and as they are sent."""
        self._refused: set[str] = set()
        self._ended = False
        self._lock = threading.Lock()
        self._untraced: set[type[Any]] = set(NUMBERS)
        self._changing: set[type[Any]] = set()

    def record(self, values: Mapping[str, Any]) -> None:
        step = self._current.step
        loop = step.loop if step is not None else ""
        at = now()
        for name, value in values.items():
            if type(value) not in self._untraced and self._is_traced(value):
                # Kept until the next turn, a tracer would be what JAX reports as leaked; and it has no value.
                self._refuse(name, "a traced value has no number: record it outside the jitted function")
                continue
            key = self._names.get((loop, name))
            if key is None:
                if len(self._names) >= RECORDED_NAMES:
                    self._refuse(
                        "", f"only the first {RECORDED_NAMES} names are taken, and {as_name(name)} is none"
                    )
                    continue
                key = self._names[loop, name] = (loop, as_name(name))
            changing = type(value) in self._changing and value.size == 1  # in place, before it is read
            self._newest[key] = (at, value.copy() if changing else value)
        if self._ended:  # meanwhile, on another thread
            self._newest.clear()

    def _is_traced(self, value: Any) -> bool:
        if is_tracer(value):
            return True
        if type(value).__module__.startswith(ARRAYS):
            self._untraced.add(type(value))
            if type(value).__module__.startswith(NUMPY) and hasattr(type(value), "__setitem__"):
                self._changing.add(type(value))
        return False

    def ready(self) -> list[Recorded]:
        """Take the values that can be read without waiting.

        One that is not ready is kept and asked again before any newer one: in a loop that runs ahead of its device the
        newest never would be ready.
        """
        with self._lock:
            for key in list(self._newest):
                if key not in self._waiting:
                    self._waiting[key] = self._newest.pop(key)
            found = []
            for key, (at, value) in list(self._waiting.items()):
                number, settled = self._read(key[1], value)
                if settled:
                    del self._waiting[key]
                if number is not None:
                    found.append(Recorded(key[0], key[1], number, at))
            return found

    def last(self) -> list[Recorded]:
        """Take the last values that can be read without waiting, and let go of all others; later ones are not kept."""
        found = self.ready() + self.ready()  # of each name the one that waits, and the newest after it
        self.let_go()
        return found

    def let_go(self) -> None:
        """Hold no value of the job's any more."""
        self._ended = True
        with self._lock:
            self._newest.clear()
            self._waiting.clear()

    def _read(self, name: str, value: Any) -> tuple[float | None, bool]:
        """The number, None where there is none, and whether the value need not be asked again."""
        try:
            if is_askable(value):
                if not is_ready(value):
                    return None, False
                if not value.is_fully_addressable:
                    value = value.addressable_data(0)
            return float(value), True
        except RuntimeError:  # "Array has been deleted": the user donated it after recording it
            return None, True
        except Exception as error:  # noqa: BLE001  # float() runs code of the user's type
            self._refuse(name, f"not a single number: {described(error)}")
            return None, True

    def _refuse(self, name: str, why: str) -> None:
        """Log why a value is refused: once a name, and for MAX_REFUSALS names. Without a name it holds for the others."""
        if name not in self._refused and (len(self._refused) < MAX_REFUSALS or not name):
            self._refused.add(name)
            self._log(f"record({name and as_name(name)}{'=' * bool(name)}…): {why}")
