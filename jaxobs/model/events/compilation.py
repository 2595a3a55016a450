"""Compilations, and the executables that they made."""

from __future__ import annotations

from typing import NamedTuple

from jaxobs.model.events.attributes import Attributes, SpanContext

MISS_ARGUMENT = "jax.recompilation.argument"
MISS_OLD = "jax.recompilation.old"
MISS_NEW = "jax.recompilation.new"
MISS_DIFFERENCES = "jax.recompilation.differences"
MISS_REASON = "jax.recompilation.reason"
"""Attributes of a `Compilation` that was needed again: which argument changed, from what to what, how many things differ
in all, and why the cause is `other`. `differences` is 1 where nothing but the argument changed."""

CALL_FILE = "code.file.path"
CALL_LINE = "code.line.number"
CALL_FUNCTION = "code.function.name"
"""Where the user's program called the function: OpenTelemetry's names."""

CACHE_SECONDS_SAVED = "jax.persistent_cache.seconds_saved"
"""What JAX says that reading the executable saved: its compile time less the time of reading; may be negative."""


class CompilePhaseStarted(NamedTuple):
    """A trace, lowering or backend compile began on a thread and is in flight until its `CompilePhaseEnded`."""

    function: str
    phase: str
    thread: int
    time: int


class CompilePhaseEnded(NamedTuple):
    """`exclusive` is the phase's own time, without what was nested in it. `outermost`: nothing is around it."""

    function: str
    phase: str
    thread: int
    start: int
    end: int
    exclusive: int
    outermost: bool


class Compilation(NamedTuple):
    """One executable was made: by the compiler, or read from the persistent cache.

    `phases` are those that led to it on this thread, as (phase, start, end). `recompilation` is None for a function's
    first compile, else a cause from the closed set of `jaxobs_recompilations_total`.
    """

    function: str
    executable: int
    thread: int
    time: int
    phases: tuple[tuple[str, int, int], ...]
    persistent_cache: str
    recompilation: str | None
    attributes: Attributes
    parent: SpanContext | None


class ExecutableCreated(NamedTuple):
    """What is known of a new executable when it was made; `proto` is its serialised `HloModuleProto`.

    `memory` holds (kind, bytes) of XLA's memory analysis, per device. `devices` counts the local devices it runs on.
    `definition` is where the function's source is, which tells functions of one name apart; empty if that is not known.
    """

    executable: int
    function: str
    time: int
    proto: bytes | None
    proto_reason: str
    memory: tuple[tuple[str, int], ...]
    devices: int
    definition: str = ""
