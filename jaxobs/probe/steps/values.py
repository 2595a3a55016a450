"""The user's names and numbers as plain types, which alone can be sent to the agent; and values that the user records.

A wrong value that was meant for a dashboard must not stop a training run: it raises only where it can never be a
number, and only before the first step has ended. Of recorded values the newest of each name is read about once a second,
off the training thread.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

from jaxobs.jax_compat.arrays import is_askable, is_ready
from jaxobs.jax_compat.jit import is_tracer
from jaxobs.jax_compat.objects import has_any, is_of, name_of
from jaxobs.model.clock import now
from jaxobs.model.events import RECORDED_NAMES, Recorded
from jaxobs.plugin.guard import Suppressed, described, raised_by_signal_handler
from jaxobs.probe.steps.loops import Current
from jaxobs.vocabulary.text import cut_name


def as_name(name: Any) -> str:
    """The name of a loop, a phase or a recorded value as a plain `str` of bounded length.

    It may be a member of a StrEnum.
    """
    if type(name) is str:
        return cut_name(name)
    with Suppressed(Exception):  # a wrong name must not stop a training run
        return cut_name(str.__str__(name) if isinstance(name, str) else str(name))
    return type(name).__name__


def given_amount(word: str, value: Any, steps_ended: Callable[[], int]) -> float | None:
    """The user's examples, tokens or FLOPs as `plain_amount` gives them.

    Raises TypeError for what is no number at all, at the call that was given it and not later in the loop. Once a step
    has ended it is NaN instead: an evaluation that begins after hours with a wrong argument must not end the training.
    """
    kind = type(value)
    if value is not None and not has_any(kind, "__float__", "__index__", "is_ready") and not steps_ended():
        raise TypeError(f"{word}= takes a number, not an object of type {name_of(kind)!r}")
    return plain_amount(value)


def given_timeout(call: str, value: Any) -> float:
    """Seconds to wait at most. Raises TypeError for no number, ValueError for a negative, infinite or too large one."""
    if not isinstance(value, Real):
        raise TypeError(
            f"{call}(timeout=…) takes a number of seconds, not an object of type {type(value).__name__!r}"
        )
    seconds = float(value)
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise ValueError(f"{call}(timeout={seconds:g}): give seconds from 0 on, and a finite number of them")
    return seconds


def amount(count: Any, item: Any) -> float | None:
    """What the user's function returns for an item, as `plain_amount` gives it; NaN where it raises."""
    with Suppressed(Exception):  # the user's function may raise anything
        return plain_amount(count(item))
    return math.nan


LARGEST_AMOUNT = 1e200
"""Beyond it sums and rates of amounts would be no finite numbers."""


def plain_amount(value: Any) -> float | None:
    """A plain number, None for None, and NaN, which is refused and counted later, for anything else.

    A JAX array is NaN as well: reading it would wait for the device.
    """
    if value is None:
        return None
    if type(value) is int or type(value) is float:
        return value if -LARGEST_AMOUNT < value < LARGEST_AMOUNT else math.nan
    with Suppressed(Exception):  # a number of the user's own type may raise anything
        if not hasattr(value, "is_ready") and not isinstance(value, str):
            return plain_amount(float(value))
    return math.nan


def as_number(value: Any) -> float:
    """A value as a number. An array of JAX's is waited for. Raises what the value's type raises."""
    if is_askable(value):
        import jax

        # Explicitly: an implicit transfer is what `jax_transfer_guard` forbids or logs.
        value = jax.device_get(value if value.is_fully_addressable else value.addressable_data(0))
    return float(value)


NUMBERS = (float, int, bool)

MAX_REFUSALS = 20
"""Names of which it is said that their values cannot be recorded: who has more has seen enough."""


class RecordedValues:
    """Values by loop and name. `record` is on the hot path: one dictionary store a value."""

    locating: int | None = None
    """The thread that looks for where a value began not to be finite; None while none does."""

    def __init__(self, current: Current, log: Callable[[str], None]) -> None:
        self._current = current
        self._log = log
        self._newest: dict[tuple[str, str], tuple[int, Any]] = {}
        self._waiting: dict[tuple[str, str], tuple[int, Any]] = {}
        self._names: dict[tuple[str, str], tuple[str, str]] = {}
        """Loop and name as they are given, and as they are sent."""
        self._refused: set[str] = set()
        self._ended = False
        self._changes: dict[type[Any], bool] = dict.fromkeys(NUMBERS, False)
        """Types met so far that are none of a tracer, and whether their values may change in place. Those of the user's
        are not remembered: that would keep them alive."""

    def record(self, values: Mapping[str, Any]) -> None:
        step = self._current.step
        loop = step.state.name if step is not None else ""
        at = now()
        for name, value in values.items():
            try:
                if why := self._why_not_kept(value):
                    self._refuse(name, why)
                    continue
                kept = value.copy() if self._changes.get(type(value)) else value
            except Exception as error:  # of the user's type, whose class may not even have a hash
                if raised_by_signal_handler(error):
                    raise
                self._refuse(name, f"not a single number: {described(error)}")
                continue
            key = self._names.get((loop, name))
            if key is None:
                if len(self._names) >= RECORDED_NAMES:
                    why = f"only the first {RECORDED_NAMES} names are taken, of all loops together: not {as_name(name)}"
                    self._refuse("", why)
                    continue
                key = self._names[loop, name] = (loop, as_name(name))
            self._newest[key] = at, kept
        if self._ended:  # meanwhile, on another thread
            self._newest.clear()

    def _why_not_kept(self, value: Any) -> str:
        """Why a value is refused at once, by its type and shape alone; empty for what may be a number."""
        kind = type(value)
        if kind not in self._changes:
            if is_tracer(value):  # kept until the next turn, it would be what JAX reports as leaked
                return "a traced value has no number: record it outside the jitted function"
            if is_of(kind, "jaxlib", "numpy"):
                own = is_of(kind, "numpy")
                self._changes[kind] = own and hasattr(kind, "__setitem__") and hasattr(kind, "shape")
        shape = () if kind in NUMBERS else getattr(value, "shape", ())
        if isinstance(shape, tuple) and math.prod(shape) != 1:  # kept, it might take much memory
            return f"not a single number: an array of shape {tuple(shape)}"
        return ""

    def ready(self) -> list[Recorded]:
        """Take the values that can be read without waiting.

        One that is not ready is kept and asked again before any newer one: in a loop that runs ahead of its device the
        newest never would be ready. No lock is held: a number of the user's own type may hang as it is read.
        """
        for key in list(self._newest):
            if key not in self._waiting and (newest := self._newest.pop(key, None)) is not None:
                self._waiting[key] = newest
        found = []
        for key, (at, value) in list(self._waiting.items()):
            number, settled = self._read(key[1], value)
            if settled:
                self._waiting.pop(key, None)  # perhaps let go of meanwhile
            if number is not None:
                found.append(Recorded(key[0], key[1], number, at))
        return found

    def let_go(self) -> None:
        """Hold no value of the job's any more, nor of what is recorded from now on."""
        self._ended = True
        self._newest.clear()
        self._waiting.clear()

    def _read(self, name: str, value: Any) -> tuple[float | None, bool]:
        """The number, None where there is none, and whether the value need not be asked again."""
        try:
            if is_askable(value) and not is_ready(value):
                return None, False
            return as_number(value), True
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
