"""What each function was compiled for lately, so that a recompile can be compared with it.

Function objects and traces are held weakly: what the user lets go of is let go of. Bounded in every direction.

Closures of one factory are functions of their own while they live, and so are methods of several objects. One that is
made when another is gone took its place: the function was redefined.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from jaxobs_plugins.probes.compile.functions import is_one_of_many
from jaxobs_plugins.probes.compile.miss_cause import Explanation, Signature, explain

SIGNATURES_KEPT = 8
"""Of each function object, the latest: one that alternates between some few shapes compiles each of them once."""

OBJECTS_KEPT = 64
"""Function objects of one source that are told apart, and taken for functions of their own while they live. More come
from a loop that makes one each turn and keeps it."""

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
class FunctionObject:
    """One, by its number, and the latest signatures it was compiled for. Without a reference it is never gone."""

    number: int
    reference: weakref.ref[Any] | int | None = None
    signatures: deque[Signature] = field(default_factory=lambda: deque(maxlen=SIGNATURES_KEPT))

    def refers_to(self, function: Any) -> bool:
        reference = self.reference
        return reference() is function if isinstance(reference, weakref.ref) else reference == id(function)

    @property
    def is_gone(self) -> bool:
        return isinstance(self.reference, weakref.ref) and self.reference() is None


@dataclass(slots=True, eq=False)
class Function:
    """The function objects of one source by number, the one seen last at the end."""

    objects: dict[int, FunctionObject] = field(default_factory=dict)

    @property
    def arrays(self) -> int:
        return sum(len(signature.names) for signature in self.signatures)

    @property
    def signatures(self) -> list[Signature]:
        return list(itertools.chain.from_iterable(each.signatures for each in self.objects.values()))

    def seen(self, found: FunctionObject) -> FunctionObject:
        self.objects.pop(found.number, None)
        self.objects[found.number] = found
        while len(self.objects) > OBJECTS_KEPT:
            del self.objects[next(iter(self.objects))]
        return found

    def compiled_before(self, number: int, *, is_one_of_many: bool) -> list[Signature]:
        """What this function object is to be compared with: its own signatures, else those of one whose place it took.

        None where it is a function of its own.
        """
        if number in self.objects and self.objects[number].signatures:
            return list(self.objects[number].signatures)
        compiled = [each for each in self.objects.values() if each.signatures]
        replaced = [each for each in compiled if each.is_gone or not is_one_of_many]
        if not replaced and len(compiled) >= OBJECTS_KEPT - 1:
            replaced = compiled
        if not replaced:
            return []
        if replaced[-1].is_gone:
            del self.objects[replaced[-1].number]  # only one takes its place
        return list(replaced[-1].signatures)

    def forget_oldest(self) -> None:
        """One signature."""
        oldest = next(each for each in self.objects.values() if each.signatures)
        oldest.signatures.popleft()


class History:
    """The signatures with which all functions of this process were compiled, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer that compiles may run within
        self._functions: OrderedDict[tuple[Any, ...], Function] = OrderedDict()
        self._traces: OrderedDict[int, tuple[weakref.ref[Any], Traced]] = OrderedDict()
        self._number = self._arrays = self._traced_arrays = 0

    def number_of(self, key: tuple[Any, ...], function: Any) -> int:
        """The number of a function object: the same for the same object, told apart by nothing but its identity."""
        with self._lock:
            function_objects = self._function(key)
            for found in function_objects.objects.values():
                if found.refers_to(function):
                    return function_objects.seen(found).number
            self._number += 1
            return function_objects.seen(FunctionObject(self._number, _reference_to(function))).number

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
            function, number = self._function(traced.key), traced.signature.function
            self._arrays -= function.arrays
            latest = function.signatures[-1:]
            earlier = function.compiled_before(number, is_one_of_many=is_one_of_many(traced.key))
            function.seen(function.objects.get(number) or FunctionObject(number)).signatures.append(
                _sharing(traced.signature, latest[-1]) if latest else traced.signature
            )
            while function.arrays > ARRAYS_KEPT and len(function.signatures) > 1:
                function.forget_oldest()
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
    """An equal signature that takes what equals an earlier one's parts from there, to let go of its own."""
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
