"""Events of compilations, and of the executables that they made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jaxobs.model.events.attributes import Attributes, SpanContext

MISS_ARGUMENT = "jax.recompilation.argument"
MISS_OLD = "jax.recompilation.old"
MISS_NEW = "jax.recompilation.new"
MISS_DIFFERENCES = "jax.recompilation.differences"
MISS_REASON = "jax.recompilation.reason"
"""Attributes of a recompilation: the argument that changed, its old and new values, the number of differences, and why
the cause is `other`. `differences` is 1 where nothing but the argument changed."""

CALL_FILE = "code.file.path"
CALL_LINE = "code.line.number"
CALL_FUNCTION = "code.function.name"
"""Attributes of the place where the user's program called the function, under OpenTelemetry's names."""

CACHE_SECONDS_SAVED = "jax.persistent_cache.seconds_saved"
"""Attribute of the time saved by reading the executable, according to JAX: the compile
time less that of reading, which may be negative."""


class CompilePhaseStarted(NamedTuple):
    """A trace, lowering or backend compile began on a thread and is in flight until its `CompilePhaseEnded`."""

    function: str
    phase: str
    thread: int
    time: int


class CompilePhaseEnded(NamedTuple):
    """A phase ended. `exclusive` is its own time without nested phases. `outermost`: it is nested in no other phase."""

    function: str
    phase: str
    thread: int
    start: int
    end: int
    exclusive: int
    outermost: bool


class Compilation(NamedTuple):
    """An executable was compiled, or read from the persistent cache.

    `phases` are the phases that led to it on this thread, as (phase, start, end). `recompilation` is None for a
    function's first compile, else a cause from the closed set of `jaxobs_recompilations_total`.
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
    """The properties of a new executable; `proto` is its serialised `HloModuleProto`.

    `memory` holds (kind, bytes) of XLA's memory analysis, per device. `devices` is the number of local devices it runs
    on. `definition` is the place of the function's source, which tells functions of one
    name apart; empty where unknown.
    """

    executable: int
    function: str
    time: int
    proto: bytes | None
    proto_reason: str
    memory: tuple[tuple[str, int], ...]
    devices: int
    definition: str = ""


def memory_need(memory: Mapping[str, int]) -> int:
    """Bytes of device memory that one run takes by XLA's memory analysis; an aliased output shares its argument's."""
    kinds = ("argument", "output", "temporary", "code")
    return sum(memory.get(kind, 0) for kind in kinds) - memory.get("alias", 0)
