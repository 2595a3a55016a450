"""Finds why each executable was needed: notes signatures while JAX traces and lowers, and compares them afterwards.

They are compared with the latest signatures that each function was compiled for, which are remembered here. Function
objects and traces are referenced weakly, so nothing is kept alive that the user drops. Every table is bounded.

Closures made by one factory count as separate functions while they live, and so do methods of several objects. One made
after another has been collected replaces it: the function was redefined.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from jaxobs.jax_compat.compiling import JitCall, Lowering, call_being_traced, lowering, plain_parameters
from jaxobs.jax_compat.pmap import mapped_call
from jaxobs.model import events as names
from jaxobs.model.events import Attributes
from jaxobs.plugin.frames import CallSite, call_site
from jaxobs.plugin.guard import Suppressed
from jaxobs.vocabulary.text import cut_name
from jaxobs_plugins.probes.compile.miss_cause import UNEXPLAINED, Explanation, Signature, explain
from jaxobs_plugins.probes.compile.signature import (
    context_now,
    leaves_of,
    shardings_of,
    signature_of,
    untraced_signature,
)
from jaxobs_plugins.probes.compile.values import (
    bound_by,
    definition_of,
    function_key,
    is_one_of_many,
    value_of,
)

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
class Function:
    """The function objects of one source by number, in the order in which they were last seen, and their signatures.

    A reference is weak, or the object's address where it allows no weak reference; only a weak one shows that the
    object is gone. The signatures are those that the objects were compiled for, the latest last.
    """

    references: dict[int, weakref.ref[Any] | int] = field(default_factory=dict)
    signatures: list[Signature] = field(default_factory=list)

    @property
    def arrays(self) -> int:
        return sum(len(signature.names) for signature in self.signatures)

    def number_of(self, function: Any, unused: int) -> int:
        """The number of an object, which depends on its identity alone; `unused` where it has none yet."""
        known = (number for number, each in self.references.items() if _refers(each, function))
        number = next(known, unused)
        self.references.pop(number, None)
        self.references[number] = _reference_to(function)
        while len(self.references) > OBJECTS_KEPT:
            del self.references[next(iter(self.references))]
        return number

    def compiled_before(self, number: int, *, is_one_of_many: bool) -> list[Signature]:
        """The signatures to compare a compile of this object with: its own, else those of the object that it replaced.

        Empty where it replaced none and is thus a new function. A replaced object that is gone is forgotten.
        """
        if own := self._of(number):
            return own
        compiled = list(dict.fromkeys(each.function for each in reversed(self.signatures)))
        replaced = [each for each in compiled if self._is_gone(each) or not is_one_of_many]
        if not replaced and len(compiled) >= OBJECTS_KEPT - 1:
            replaced = compiled
        if not replaced:
            return []
        earlier = self._of(replaced[0])
        if self._is_gone(replaced[0]):  # one object alone replaces it
            self.signatures = [each for each in self.signatures if each.function != replaced[0]]
        return earlier

    def add(self, signature: Signature) -> None:
        """Remember a signature, in place of the oldest ones where the object, or the source, has too many."""
        self.signatures.append(signature)
        if len(own := self._of(signature.function)) > SIGNATURES_KEPT:
            self.signatures.remove(own[0])
        while len(self.signatures) > 1 and (
            self.arrays > ARRAYS_KEPT or len(self.signatures) > OBJECTS_KEPT * SIGNATURES_KEPT
        ):
            del self.signatures[0]

    def _of(self, number: int) -> list[Signature]:
        return [each for each in self.signatures if each.function == number]

    def _is_gone(self, number: int) -> bool:
        reference = self.references.get(number)
        return isinstance(reference, weakref.ref) and reference() is None


class History:
    """The signatures that the functions of this process were compiled for. Any thread may call its methods."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer that compiles may run within
        self._functions: OrderedDict[tuple[Any, ...], Function] = OrderedDict()
        self._traces: OrderedDict[int, tuple[weakref.ref[Any], Traced]] = OrderedDict()
        self._number = self._arrays = self._traced_arrays = 0

    def number_of(self, key: tuple[Any, ...], function: Any) -> int:
        """The number of a function object among those with this key."""
        with self._lock:
            self._number += 1
            return self._function(key).number_of(function, self._number)

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
            function.add(_sharing(traced.signature, latest[-1]) if latest else traced.signature)
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


def _refers(reference: weakref.ref[Any] | int, function: Any) -> bool:
    return reference() is function if isinstance(reference, weakref.ref) else reference == id(function)


def _reference_to(function: Any) -> weakref.ref[Any] | int:
    """A weak reference where the object allows one, else its address."""
    try:
        return weakref.ref(function)
    except TypeError:
        return id(function)


UNDER_WAY = 32
"""Most functions remembered that one thread has traced but not compiled yet, as happens with ahead-of-time compiles."""

CONTROL_FLOW = "control flow outside jit"
"""First element of the keys of loops and conditionals of `jax.lax` that run outside jit."""

NOT_SEEN = "what it was compiled for could not be seen"
NO_DIFFERENCE = (
    "nothing that is compared differs: its executable had been let go of, or an option of XLA's differs"
)
TRANSFORMED = (
    "nothing that is compared differs: its executable had been let go of, or it is of another closure with the same "
    "source, which are not told apart where grad or vmap is applied outside jit"
)
TOO_MANY = "nothing that is compared differs, and it takes more arrays than are compared"

Noted = TypeVar("Noted")


class Explained(NamedTuple):
    """Why a function was compiled (None: for the first time), the attributes of its span, and where its source is."""

    cause: str | None
    attributes: Attributes
    definition: str


NO_CAUSE = Explained(None, (), "")


class UnderWay(threading.local):
    """The signatures and call sites of the functions that one thread has traced or lowered but not compiled yet."""

    def __init__(self) -> None:
        self.traced: dict[str, Traced] = {}
        self.lowered: dict[str, Traced] = {}
        self.sites: dict[str, CallSite | None] = {}


class Causes:
    """Explains this process's compiles. Called on compiling threads; what cannot be read stays unexplained.

    None of its methods raises for an object of JAX's or of the user's that it cannot read.
    """

    def __init__(self) -> None:
        self._history = History()
        self._thread = UnderWay()
        self._compiled: set[str] = set()

    def trace_began(self, function: str, frame: FrameType) -> None:
        """Note what `function` is traced for. `frame` is the listener's, below JAX's frames on the stack.

        Only called for an outermost trace, because JAX's own functions may be traced inside the user's.
        """
        thread = self._thread
        thread.traced.pop(function, None)
        with Suppressed(Exception):
            # A future JAX may have other types, and types of the user's may misbehave: the cause then stays unknown.
            mapped = mapped_call(frame)
            call = mapped or call_being_traced(frame)
            parameters = None if call is None else plain_parameters(call.function)
            if call is not None and parameters is not None:
                # JAX makes a new function object for each such program, so its name and line serve as the key instead.
                statics = tuple((name, value_of(value)) for name, value in parameters.items())
                signature = signature_of(call, 0)._replace(statics=statics)
                _keep(thread.traced, function, Traced((CONTROL_FLOW, function), signature))
            elif call is not None:
                # pmap and jit make different programs of the same function.
                key = (*function_key(call.function), "pmap" if mapped else "jit")
                _keep(thread.traced, function, Traced(key, self._signature(key, call)))

    def _signature(self, key: tuple[Any, ...], call: JitCall) -> Signature:
        inner, arguments = bound_by(call.function)
        signature = signature_of(call, self._history.number_of(key, inner))
        if inner is call.function:
            return signature
        statics = tuple((name, value_of(value)) for name, value in arguments)
        return signature._replace(
            partial=self._history.number_of(key, call.function), statics=signature.statics + statics
        )

    def lowering_began(self, function: str, frame: FrameType) -> None:
        thread = self._thread
        traced = thread.traced.pop(function, None)
        thread.lowered.pop(function, None)
        with Suppressed(Exception):  # as above
            # The call site is read here and not at the trace, which another call such
            # as `jax.eval_shape` may have begun.
            _keep(thread.sites, function, call_site(frame))
            lowered = self._lowered(function, lowering(frame), traced)
            if lowered is not None:
                _keep(thread.lowered, function, lowered)

    def compiling_began(self, function: str, frame: FrameType) -> None:
        """Note the signature where JAX lowered `function` before and now compiles it again, for another device."""
        if function not in self._thread.lowered:
            self.lowering_began(function, frame)

    def _lowered(self, function: str, program: Lowering | None, traced: Traced | None) -> Traced | None:
        if program is None:
            return traced
        known: Traced | None = None
        if not program.transformation:
            if traced is not None and leaves_of(program.avals) != traced.signature.leaves:
                traced = None  # a trace for something else, of a function of the same name
            known = self._history.lowered(program.jaxpr, traced)
        if known is None:
            # What grad or vmap makes of a function is another program: its first compile is no recompile of the
            # function. Each pass of a gradient is another one still, recognised by its numbers of arrays and results.
            # The key needs the name as well, because JAX gives its own code as the source of a pmapped function.
            key = (function, program.source, program.transformation, len(program.avals), program.outputs)
            known = Traced(key, untraced_signature(program.names, program.avals))
        signature = known.signature
        shardings = shardings_of(program.shardings, len(signature.leaves)) if signature.complete else ()
        return Traced(known.key, signature._replace(shardings=shardings, context=context_now()))

    def explained(self, function: str) -> Explained:
        """Say why the compile of `function` that has just ended was needed."""
        thread = self._thread
        site = thread.sites.pop(function, None)
        where: Attributes = ()
        if site is not None:
            where = (
                (names.CALL_FILE, site.file), (names.CALL_LINE, site.line), (names.CALL_FUNCTION, site.function)
            )  # fmt: skip
        # A missing lowering means that the function was lowered before and only its executable had to be made again.
        noted = thread.lowered.pop(function, None) or thread.traced.pop(function, None)
        if noted is not None:
            explanation = self._history.compiled(noted)
        else:
            explanation = UNEXPLAINED if function in self._compiled else None
        self._compiled.add(function)
        definition = "" if noted is None else definition_of(noted.key)
        if explanation is None:
            return Explained(None, where, definition)
        if explanation == UNEXPLAINED and noted is not None and noted.key[0] == CONTROL_FLOW:
            # Neither its arrays nor its length differ, so the function that it applies does: it is another one.
            explanation = explanation._replace(cause="redefined")
        reason = None
        if explanation.cause == "other":
            reason = _why_unknown(noted)
        details = (
            (names.MISS_ARGUMENT, explanation.argument and cut_name(explanation.argument)),
            (names.MISS_OLD, explanation.old),
            (names.MISS_NEW, explanation.new),
            (names.MISS_DIFFERENCES, explanation.differences or None),
            (names.MISS_REASON, reason),
        )
        attributes = where + tuple((name, value) for name, value in details if value is not None)
        return Explained(explanation.cause, attributes, definition)


def _why_unknown(noted: Traced | None) -> str:
    """Say why the cause of a recompile is not known."""
    if noted is None:
        return NOT_SEEN
    if not noted.signature.complete:
        return TOO_MANY
    return NO_DIFFERENCE if noted.signature.function else TRANSFORMED


def _keep(noted: dict[str, Noted], function: str, what: Noted) -> None:
    noted.pop(function, None)
    noted[function] = what
    while len(noted) > UNDER_WAY:
        del noted[next(iter(noted))]
