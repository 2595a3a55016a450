"""What each function was compiled for lately, so that a recompile can be compared with it.

Function objects and traces are held weakly: what the user lets go of is let go of. Bounded in every direction.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from jaxobs_plugins.probes.compile.miss_cause import Explanation, Signature, explain

SIGNATURES_KEPT = 8
"""Of each function, the latest: one that alternates between some few shapes compiles each of them once."""

OBJECTS_KEPT = 64
"""Function objects of one function that are told apart; a loop that makes a new one each turn needs no more."""

FUNCTIONS_KEPT = 1000
TRACES_KEPT = 1000
ARRAYS_KEPT = 50_000
"""The least recently compiled are forgotten: of functions, and of the traces behind them, each beyond so many, and beyond
so many arrays in their signatures together. An array takes 300 bytes where no other has its name, shape or type, so 15 MB
at most, and 16 bytes where others have."""

SHARED = ("options", "context", "bindings", "statics", "structure", "names", "leaves", "shardings")


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """A function that is traced, by its key, and for what."""

    key: tuple[Any, ...]
    signature: Signature


@dataclass(slots=True, eq=False)
class Function:
    """Its function objects by number, and the latest signatures it was compiled for."""

    objects: list[tuple[int, weakref.ref[Any] | int]] = field(default_factory=list)
    signatures: deque[Signature] = field(default_factory=lambda: deque(maxlen=SIGNATURES_KEPT))

    @property
    def arrays(self) -> int:
        return sum(len(signature.names) for signature in self.signatures)


class History:
    """Of all functions of this process, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer that compiles may run within
        self._functions: OrderedDict[tuple[Any, ...], Function] = OrderedDict()
        self._traces: OrderedDict[int, tuple[weakref.ref[Any], Traced]] = OrderedDict()
        self._number = self._arrays = self._traced_arrays = 0

    def number_of(self, key: tuple[Any, ...], function: Any) -> int:
        """The number of a function object: the same for the same object, told apart by nothing but its identity."""
        with self._lock:
            objects = self._function(key).objects
            for number, held in objects:
                if (held() if isinstance(held, weakref.ref) else held) is function or held == id(function):
                    return number
            self._number += 1
            objects.append((self._number, _reference_to(function)))
            del objects[:-OBJECTS_KEPT]
            return self._number

    def lowered(self, jaxpr: Any, traced: Traced | None) -> Traced | None:
        """What was traced into `jaxpr`: what was seen just now, else as it is remembered from an earlier lowering."""
        with self._lock:
            held = self._traces.pop(id(jaxpr), None)
            if held is not None:
                self._traced_arrays -= len(held[1].signature.names)
                if traced is None and held[0]() is jaxpr:
                    traced = held[1]
            if traced is not None:
                self._traces[id(jaxpr)] = (weakref.ref(jaxpr), traced)
                self._traced_arrays += len(traced.signature.names)
                while (
                    len(self._traces) > TRACES_KEPT
                    or (self._traced_arrays > ARRAYS_KEPT and len(self._traces) > 1)
                    or next(iter(self._traces.values()))[0]() is None  # JAX's caches were cleared
                ):
                    _, (_, forgotten) = self._traces.popitem(last=False)
                    self._traced_arrays -= len(forgotten.signature.names)
            return traced

    def compiled(self, traced: Traced) -> Explanation | None:
        """Remember it; None if it is the first of this function, else why there is another."""
        with self._lock:
            function = self._function(traced.key)
            earlier = list(function.signatures)
            self._arrays -= function.arrays
            function.signatures.append(
                _sharing(traced.signature, earlier[-1]) if earlier else traced.signature
            )
            while function.arrays > ARRAYS_KEPT and len(function.signatures) > 1:
                function.signatures.popleft()
            self._arrays += function.arrays
            while self._arrays > ARRAYS_KEPT and len(self._functions) > 1:
                self._arrays -= self._functions.popitem(last=False)[1].arrays
        return explain(traced.signature, earlier) if earlier else None

    def _function(self, key: tuple[Any, ...]) -> Function:
        function = self._functions.pop(key, None) or Function()
        self._functions[key] = function
        while len(self._functions) > FUNCTIONS_KEPT:
            self._arrays -= self._functions.popitem(last=False)[1].arrays
        return function


def _sharing(signature: Signature, earlier: Signature) -> Signature:
    """The same, with those parts that are equal to an earlier one's taken from there, to let go of its own."""
    parts = {
        name: getattr(earlier, name) for name in SHARED if getattr(earlier, name) == getattr(signature, name)
    }
    return signature._replace(**parts)


def _reference_to(function: Any) -> weakref.ref[Any] | int:
    """Weak where the object allows it, else its address."""
    try:
        return weakref.ref(function)
    except TypeError:
        return id(function)
