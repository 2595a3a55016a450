"""Keeps what watched functions were called with, and waits for recorded values, where the user set JAXOBS_LOCATE_NAN.

At the first value that is not finite the last calls are run once more, to say where it began (`nan_origin.py`).
"""

from __future__ import annotations

import math
import sys
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxobs.jax_compat.arrays import is_askable
from jaxobs.jax_compat.jit import is_tracer
from jaxobs.jax_compat.objects import is_of
from jaxobs.model.clock import now
from jaxobs.model.events import Event, Recorded
from jaxobs.plugin.frames import CallSite, call_site
from jaxobs.plugin.guard import Suppressed, raised_by_signal_handler
from jaxobs.plugin.guard import described as error_described
from jaxobs.plugin.wrapping import internal
from jaxobs.probe.steps.loops import Current
from jaxobs.probe.steps.values import RecordedValues, as_name, as_number
from jaxobs.probe.watch.calls import reference

CALLS_KEPT = 2
"""Calls of one function that are kept: a NaN in a gradient is seen in the loss of the next step."""

FUNCTIONS_KEPT = 4
"""Watched functions whose calls are kept, those called last: a step is one or two."""


class Call(NamedTuple):
    """What a watched function was called with, as leaves and the structure of (args, kwargs), and what it returned.

    The script may change its dictionaries and NumPy's arrays after the call: none of them is kept.
    """

    number: int
    function: Any
    leaves: list[Any]
    structure: Any
    outputs: tuple[weakref.ref[Any] | None, ...]
    called_at: CallSite | None

    def place_of(self, value: Any) -> int | None:
        """The place of a value among what was returned; None if it is not of it."""
        found = (at for at, each in enumerate(self.outputs) if each is not None and each() is value)
        return next(found, None)


class CheckedValues(RecordedValues):
    """Recorded values of which each is waited for, until one was not finite and was looked into."""

    def __init__(self, current: Current, log: Callable[[str], None], emit: Callable[[Event], None]) -> None:
        super().__init__(current, log)
        self._emit = emit
        self._calls: OrderedDict[int, deque[Call]] = OrderedDict()
        self._number = 0
        self._over = False

    def keeping(self, function: Any) -> Callable[..., Any]:
        """What is called in place of a watched function, so that its calls are kept."""

        @internal
        def kept(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if not self._over:
                self._keep(function, args, kwargs, result)
            return result

        return kept

    def record(self, values: Mapping[str, Any]) -> None:
        super().record(values)
        for name in () if self._over else values:
            if self._is_faulty(values[name]):
                self._locate(name, values[name])
                break

    def let_go(self) -> None:
        super().let_go()
        self._over = True
        self._calls.clear()

    def _keep(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        with Suppressed(Exception):  # of the user's types in trees, or as JAX is not imported
            tree = sys.modules["jax"].tree
            outputs = tree.leaves(result)
            leaves, structure = tree.flatten((args, kwargs))
            if any(map(is_tracer, [*outputs, *leaves])):
                return
            self._number += 1
            calls = self._calls.setdefault(id(function), deque(maxlen=CALLS_KEPT))
            given = list(map(_as_given, leaves))
            called_at = call_site(sys._getframe(1))  # noqa: SLF001  # the public way to a frame
            kept = tuple(map(reference, outputs))
            calls.append(Call(self._number, function, given, structure, kept, called_at))
            self._calls.move_to_end(id(function))
            if len(self._calls) > FUNCTIONS_KEPT:
                self._calls.popitem(last=False)
        if self._over:  # meanwhile, on another thread
            self._calls.clear()

    def _is_faulty(self, value: Any) -> bool:
        kind = type(value)
        with Suppressed(Exception):  # it is no single number, or was donated: `RecordedValues` says so
            is_number = kind is float or is_of(kind, "numpy") or is_askable(value)
            return is_number and not math.isfinite(as_number(value))
        return False

    def _locate(self, name: str, value: Any) -> None:
        """Say where it began, once a run."""
        by_function = list(self._calls.values())  # other threads may call meanwhile
        calls = sorted((call for each in by_function for call in list(each)), key=lambda call: -call.number)
        self._over = True
        self._calls.clear()
        text = "it could not be found where it began"
        self.locating = threading.get_ident()
        try:
            from jaxobs.probe.watch.nan_origin import where_it_began

            text = where_it_began(calls, value)
        except Exception as error:  # of JAX, such as too little memory
            if raised_by_signal_handler(error):
                raise
            text += f": {error_described(error)}"
        finally:
            self.locating = None
        number = as_number(value)
        self._log(f"the recorded value `{as_name(name)}` is {number}: {text}")
        step = self._current.step
        loop = step.state.name if step is not None else ""
        self._emit(Recorded(loop, as_name(name), number, now(), text))


def _as_given(leaf: Any) -> Any:
    """An argument as it is now: a copy of what may be changed in place, as a loader fills its batch anew."""
    kind = type(leaf)
    return leaf.copy() if is_of(kind, "numpy") and hasattr(kind, "__setitem__") else leaf
