"""Why each executable was needed: what is noted while JAX traces and lowers, explained when the executable is there."""

from __future__ import annotations

import threading
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from jaxobs.jax_compat.compiling_frames import JitCall, Lowering, call_being_traced, lowering
from jaxobs.jax_compat.control_flow import plain_parameters
from jaxobs.jax_compat.pmap import mapped_call
from jaxobs.model import events as names
from jaxobs.model.events import Attributes
from jaxobs.plugin.call_site import CallSite, call_site
from jaxobs.plugin.guard import Suppressed
from jaxobs_plugins.probes.compile.functions import bound_by, definition_of, function_key
from jaxobs_plugins.probes.compile.history import History, Traced
from jaxobs_plugins.probes.compile.miss_cause import UNEXPLAINED, Signature
from jaxobs_plugins.probes.compile.signature import (
    context_now,
    leaves_of,
    shardings_of,
    signature_of,
    untraced_signature,
)
from jaxobs_plugins.probes.compile.values import value_of

UNDER_WAY = 32
"""Functions that one thread has traced and not compiled yet, as ahead-of-time compiles may be; more are forgotten."""

CONTROL_FLOW = "control flow outside jit"
"""First in the keys of such functions."""

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
    """Why a function was compiled: None if it was its first time; what its span says of it; and where its source is."""

    cause: str | None
    attributes: Attributes
    definition: str


NO_CAUSE = Explained(None, (), "")


class UnderWay(threading.local):
    """What one thread has traced or lowered and not compiled yet, by function."""

    def __init__(self) -> None:
        self.traced: dict[str, Traced] = {}
        self.lowered: dict[str, Traced] = {}
        self.sites: dict[str, CallSite | None] = {}


class Causes:
    """One for a process. Called on compiling threads; what cannot be read stays unexplained and does not raise."""

    def __init__(self) -> None:
        self._history = History()
        self._thread = UnderWay()
        self._compiled: set[str] = set()

    def trace_began(self, function: str, frame: FrameType) -> None:
        """An outermost trace: JAX's own functions may be traced inside the user's. `frame` is below JAX's."""
        thread = self._thread
        thread.traced.pop(function, None)
        with Suppressed(Exception):
            # Types of a future JAX, or a user's that misbehave: the cause stays unknown.
            mapped = mapped_call(frame)
            call = mapped or call_being_traced(frame)
            parameters = None if call is None else plain_parameters(call.function)
            if call is not None and parameters is not None:
                # JAX makes a function object for each program outside jit, so it is known by name and line instead.
                statics = tuple((name, value_of(value)) for name, value in parameters.items())
                signature = signature_of(call, 0)._replace(statics=statics)
                _keep(thread.traced, function, Traced((CONTROL_FLOW, function), signature))
            elif call is not None:
                # What pmap makes of a function is another program than what jit makes of it.
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
            # Not where it was traced: that may have been another call, as of `jax.eval_shape`.
            _keep(thread.sites, function, call_site(frame))
            lowered = self._lowered(function, lowering(frame), traced)
            if lowered is not None:
                _keep(thread.lowered, function, lowered)

    def compiling_began(self, function: str, frame: FrameType) -> None:
        """What was lowered before may be compiled again without being lowered: for another device."""
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
            # What grad or vmap made of it is another program, whose first compile is no recompile of the function.
            # So is its backward pass, which takes another number of arrays.
            # Its name as well: the source of a pmapped function is told as JAX's own.
            key = (function, program.source, program.transformation, len(program.avals))
            known = Traced(key, untraced_signature(program.names, program.avals))
        signature = known.signature
        shardings = shardings_of(program.shardings, len(signature.leaves)) if signature.complete else ()
        return Traced(known.key, signature._replace(shardings=shardings, context=context_now()))

    def explained(self, function: str) -> Explained:
        """Why this compile, which has just ended, was needed."""
        thread = self._thread
        site = thread.sites.pop(function, None)
        where: Attributes = ()
        if site is not None:
            where = (
                (names.CALL_FILE, site.file), (names.CALL_LINE, site.line), (names.CALL_FUNCTION, site.function)
            )  # fmt: skip
        # Without a lowering the function was lowered before, and only its executable had to be made again.
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
            # Neither its arrays nor its length differ, so what it calls does: another function, or a new one.
            explanation = explanation._replace(cause="redefined")
        reason = None
        if explanation.cause == "other":
            reason = _why_unknown(noted)
        details = (
            (names.MISS_ARGUMENT, explanation.argument),
            (names.MISS_OLD, explanation.old),
            (names.MISS_NEW, explanation.new),
            (names.MISS_DIFFERENCES, explanation.differences or None),
            (names.MISS_REASON, reason),
        )
        attributes = where + tuple((name, value) for name, value in details if value is not None)
        return Explained(explanation.cause, attributes, definition)


def _why_unknown(noted: Traced | None) -> str:
    """Why the cause of a recompile is not known."""
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
