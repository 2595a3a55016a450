"""Finds why each executable was needed: notes signatures while JAX traces and lowers, and compares them afterwards.

They are compared with the latest signatures that each function was compiled for, which are remembered here. Function
objects and traces are referenced weakly, so nothing is kept alive that the user drops. Every table is bounded.

A function is known by its name and source. A second object of it, such as another closure of one factory or another
object's method, is therefore the same function, redefined.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from jaxobs.jax_compat.compiling import Lowering, call_being_traced, lowering, plain_parameters
from jaxobs.jax_compat.pmap import call_of_pmap, mapped_function
from jaxobs.model import events as names
from jaxobs.model.events import Attributes
from jaxobs.plugin.frames import CallSite, call_site
from jaxobs.plugin.guard import Suppressed
from jaxobs.vocabulary.text import cut_name
from jaxobs_plugins.probes.compile.miss_cause import UNEXPLAINED, Explanation, Signature, Value, explain
from jaxobs_plugins.probes.compile.signature import (
    context_now,
    leaves_of,
    shardings_of,
    signature_of,
    untraced_signature,
)
from jaxobs_plugins.probes.compile.values import definition_of, function_key, value_of

SIGNATURES_KEPT = 64
"""Signatures kept of each function, the latest: as many objects of it may live side by side, such as the layers of a
model that are jitted one by one."""

SIGNATURES_COMPARED = 8
"""Most of them that a compile is compared with: one that alternates between few shapes compiles each once."""

FUNCTIONS_KEPT = 1000
ARRAYS_KEPT = 50_000
"""Most functions, and most arrays in all signatures; the least recently compiled are forgotten beyond that. An array
takes 300 bytes where no other of its signature has its shape and type, so 15 MB at most."""

ARRAYS_COMPARED = 20_000
"""Most arrays of a function whose compiles are explained. The largest train states have some thousand."""


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """The key of a traced function, and the signature it was traced for."""

    key: tuple[Any, ...]
    signature: Signature


class History:
    """The signatures that the functions of this process were compiled for. Any thread may call its methods."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer that compiles may run within
        self._functions: OrderedDict[tuple[Any, ...], list[Signature]] = OrderedDict()
        self._arrays = 0

    def compiled(self, traced: Traced) -> Explanation | None:
        """Remember a compile. Returns why it was needed, or None where it is the function's first."""
        signature = traced.signature
        with self._lock:
            kept = self._functions.setdefault(traced.key, [])
            self._functions.move_to_end(traced.key)
            own = [each for each in kept if each.function == signature.function]
            earlier = (own or kept)[-SIGNATURES_COMPARED:]
            kept.append(signature)
            self._arrays += len(signature.names)
            if len(kept) > SIGNATURES_KEPT:
                self._forget(traced.key)
            while self._arrays > ARRAYS_KEPT or len(self._functions) > FUNCTIONS_KEPT:
                self._forget(next(iter(self._functions)))
        return explain(signature, earlier) if earlier else None

    def _forget(self, key: tuple[Any, ...]) -> None:
        """Forget the oldest signature of a function."""
        self._arrays -= len(self._functions[key].pop(0).names)
        if not self._functions[key]:
            del self._functions[key]


UNDER_WAY = 32
"""Most functions remembered that one thread has traced but not compiled yet, as happens with ahead-of-time compiles."""

CONTROL_FLOW = "control flow outside jit"
"""First element of the keys of loops and conditionals of `jax.lax` that run outside jit."""

NOT_SEEN = "what it was compiled for could not be seen, or it takes more arrays than are compared"
NO_DIFFERENCE = (
    "nothing that is compared differs: its executable had been let go of (by `jax.clear_caches()`, say), or an option "
    "of XLA's or a rare setting of JAX's differs, or it is of another object with the same source under grad or vmap "
    "outside jit, or it is under jax.pmap, of which only arrays are compared"
)

CALLED_AT = (names.CALL_FILE, names.CALL_LINE, names.CALL_FUNCTION)
"""The attributes that hold a `CallSite`."""

Key = TypeVar("Key")
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
        self._traces: dict[int, tuple[weakref.ref[Any], Traced]] = {}
        """By the address of JAX's jaxpr: for other shardings or devices it lowers one again without tracing again."""
        self._lock = threading.RLock()  # a finalizer that compiles may run within
        self._thread = UnderWay()
        self._unseen: dict[str, None] = {}
        """Functions of which a compile was seen, but not what it was for."""

    def trace_began(self, function: str, frame: FrameType) -> None:
        """Note what `function` is traced for. `frame` is the listener's, below JAX's frames on the stack.

        Only called for an outermost trace, because JAX's own functions may be traced inside the user's.
        """
        thread = self._thread
        thread.traced.pop(function, None)
        with Suppressed(Exception):
            # A future JAX may have other types, and types of the user's may misbehave: the cause then stays unknown.
            call, pmapped = call_being_traced(frame), call_of_pmap(frame)
            if call is None or len(call.avals) > ARRAYS_COMPARED:
                return
            key = (function, *function_key(call.function))
            if pmapped is None:
                signature = signature_of(call)
            else:  # what JAX jits is a function of its own, which takes all arrays one by one
                key = (function, *function_key(mapped_function(pmapped)), "pmap")
                signature = untraced_signature(call.names or ("",) * len(call.avals), call.avals)
            if (parameters := plain_parameters(call.function)) is not None:
                # JAX makes a new function object for each such program, so its name and line serve as the key instead.
                key = (CONTROL_FLOW, function)
                statics = tuple((name, value_of(value)) for name, value in parameters.items())
                signature = signature._replace(function=Value(signature.function.text), statics=statics)
            _keep(thread.traced, function, Traced(key, signature))

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
        if len(program.avals) > ARRAYS_COMPARED:
            return None
        known: Traced | None = None
        if not program.transformation:
            if traced is not None and leaves_of(program.avals) != traced.signature.leaves:
                traced = None  # a trace for something else, of a function of the same name
            known = traced or self._traced_before(program.jaxpr)
            if known is not None:
                noted = weakref.ref(program.jaxpr), known
                with self._lock:
                    _keep(self._traces, id(program.jaxpr), noted, FUNCTIONS_KEPT)
        if known is None:
            # What grad or vmap makes of a function is another program: its first compile is no recompile of the
            # function. Each pass of a gradient is another one still, recognised by its numbers of arrays and results.
            # The key needs the name as well, because JAX gives its own code as the source of a pmapped function.
            key = (function, program.source, program.transformation, len(program.avals), program.outputs)
            known = Traced(key, untraced_signature(program.names, program.avals))
        signature = known.signature
        shardings = shardings_of(program.shardings, len(signature.leaves))
        return Traced(known.key, signature._replace(shardings=shardings, context=context_now()))

    def _traced_before(self, jaxpr: Any) -> Traced | None:
        """What a jaxpr was traced for. Its address alone would not do, which another has once it is gone."""
        reference, traced = self._traces.get(id(jaxpr), (None, None))
        return traced if reference is not None and reference() is jaxpr else None

    def explained(self, function: str) -> Explained:
        """Say why the compile of `function` that has just ended was needed."""
        thread = self._thread
        site = thread.sites.pop(function, None)
        where: Attributes = () if site is None else tuple(zip(CALLED_AT, site, strict=True))
        # A missing lowering means that the function was lowered before and only its executable had to be made again.
        noted = thread.lowered.pop(function, None) or thread.traced.pop(function, None)
        if noted is not None:
            explanation = self._history.compiled(noted)
        else:
            explanation = UNEXPLAINED if function in self._unseen else None
            with self._lock:
                _keep(self._unseen, function, None, FUNCTIONS_KEPT)
        definition = "" if noted is None else definition_of(noted.key)
        if explanation is None:
            return Explained(None, where, definition)
        if explanation == UNEXPLAINED and noted is not None and noted.key[0] == CONTROL_FLOW:
            # Neither its arrays nor its length differ, so the function that it applies does: it is another one.
            explanation = explanation._replace(cause="redefined")
        reason = (NOT_SEEN if noted is None else NO_DIFFERENCE) if explanation.cause == "other" else None
        details = (
            (names.MISS_ARGUMENT, explanation.argument and cut_name(explanation.argument)),
            (names.MISS_OLD, explanation.old),
            (names.MISS_NEW, explanation.new),
            (names.MISS_DIFFERENCES, explanation.differences or None),
            (names.MISS_REASON, reason),
        )
        attributes = where + tuple((name, value) for name, value in details if value is not None)
        return Explained(explanation.cause, attributes, definition)


def _keep(noted: dict[Key, Noted], key: Key, what: Noted, most: int = UNDER_WAY) -> None:
    """Note it as the newest of at most so many."""
    noted.pop(key, None)
    noted[key] = what
    while len(noted) > most:
        del noted[next(iter(noted))]
