"""Remembers the latest signatures each function was compiled for, so that a recompile can be compared with them.

Function objects and traces are referenced weakly, so nothing is kept alive that the user drops. Every table is bounded.

Closures made by one factory count as separate functions while they live, and so do methods of several objects. One made
after another has been collected replaces it: the function was redefined.
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
"""Signatures kept of each function object, the latest: one that alternates between few shapes compiles each once."""

OBJECTS_KEPT = 64
"""Most function objects of one source that are told apart and count as separate functions while they live. More of them
come from a loop that makes one in each iteration and keeps it."""

FUNCTIONS_KEPT = 1000
TRACES_KEPT = 1000
ARRAYS_KEPT = 50_000
"""Most functions, most traces, and for each of the two the most arrays in all signatures; the least recently used are
forgotten beyond that. An array takes 300 bytes where no other has its name, shape or type, so 15 MB at most, and 16
bytes where others have."""

SHARED = ("options", "context", "bindings", "statics", "structure", "names", "leaves", "shardings")


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """The key of a traced function, and the signature it was traced for."""

    key: tuple[Any, ...]
    signature: Signature


@dataclass(slots=True, eq=False)
class FunctionObject:
    """A function object's number and the latest signatures it was compiled for.

    `reference` is weak, or the object's address where it allows no weak reference; only
    a weak one shows that it is gone.
    """

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
    """The function objects of one source by number, in the order in which they were last seen."""

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
        """The signatures to compare a compile of this object with: its own, else those of the object that it replaced.

        Empty where it replaced none and is thus a new function. A replaced object that is gone is forgotten.
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
            del self.objects[replaced[-1].number]  # one object alone replaces it
        return list(replaced[-1].signatures)

    def forget_oldest(self) -> None:
        """Forget one signature, of the object that was seen longest ago."""
        oldest = next(each for each in self.objects.values() if each.signatures)
        oldest.signatures.popleft()


class History:
    """The signatures that the functions of this process were compiled for. Any thread may call its methods."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer that compiles may run within
        self._functions: OrderedDict[tuple[Any, ...], Function] = OrderedDict()
        self._traces: OrderedDict[int, tuple[weakref.ref[Any], Traced]] = OrderedDict()
        self._number = self._arrays = self._traced_arrays = 0

    def number_of(self, key: tuple[Any, ...], function: Any) -> int:
        """The number of a function object, which depends on its identity alone."""
        with self._lock:
            function_objects = self._function(key)
            for found in function_objects.objects.values():
                if found.refers_to(function):
                    return function_objects.seen(found).number
            self._number += 1
            return function_objects.seen(FunctionObject(self._number, _reference_to(function))).number

    def lowered(self, jaxpr: Any, traced: Traced | None) -> Traced | None:
        """The key and signature behind `jaxpr`: those just `traced`, else those remembered from an earlier lowering."""
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
        """Remember a compile. Returns why it was needed, or None where it is the function's first."""
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
    """An equal signature that shares its parts with an earlier one where they are equal, which saves memory."""
    parts = {
        name: getattr(earlier, name) for name in SHARED if getattr(earlier, name) == getattr(signature, name)
    }
    return signature._replace(**parts)


def _reference_to(function: Any) -> weakref.ref[Any] | int:
    """A weak reference where the object allows one, else its address."""
    try:
        return weakref.ref(function)
    except TypeError:
        return id(function)
