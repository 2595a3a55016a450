"""Events: immutable facts, each with monotonic time in nanoseconds, that travel from the training process to the agent.

An event holds only `str`, `bytes`, `int`, `float`, `bool`, `None` and tuples of these, because only these can cross the
pipe (`flow/wire.py`). Third-party plugins emit `Measured` and `SpanEnded`; the others are jaxobs's own. A new event is a
class here, and its place in `Event` at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from jaxobs.model.clock import NANOSECONDS

Instant = Annotated[int, "instant"]
"""Nanoseconds of the host's monotonic clock."""
Duration = Annotated[int, "duration"]
"""Nanoseconds."""

AttributeValue = str | int | float | bool
Attributes = tuple[tuple[str, AttributeValue], ...]


class SpanContext(NamedTuple):
    """The application's own OpenTelemetry span that was current when something happened."""

    trace_id: int
    span_id: int
    trace_flags: int


class Measured(NamedTuple):
    """One value of a metric that a plugin declared: counters add it, gauges take it, histograms observe it."""

    metric: str
    labels: tuple[str, ...]
    value: float
    time: Instant


class SpanEnded(NamedTuple):
    """A finished span of a plugin, which is exported unchanged."""

    name: str
    start: Instant
    end: Instant
    attributes: Attributes
    parent: SpanContext | None


class SourceReported(NamedTuple):
    """The state of a plugin: seconds spent in it, failures, its last success, and why it failed or is set aside.

    One that is `up` and has a `reason` did not fail: it has nothing to measure, and the reason says why.
    """

    source: str
    kind: str
    up: bool
    seconds: float
    failures: int
    last_success: Instant | None
    reason: str
    time: Instant


class ProbeReported(NamedTuple):
    """Running totals of the probe side: events emitted, dropped and refused, listeners put back, CPU of its threads.

    Events that were emitted and neither dropped nor refused reached the agent up to and including this one, except
    those emitted while this one was made.
    """

    emitted: int
    dropped: int
    refused: int
    listeners_restored: int
    cpu_seconds: float
    time: Instant


@dataclass(frozen=True, slots=True)
class Span:
    """A finished span. Times are monotonic nanoseconds of this host. `span_id` and `trace_id` are never 0.

    `parent` is the enclosing span: one of ours, or the application's own (`parent.trace_id` is then this `trace_id`).
    """

    name: str
    trace_id: int
    span_id: int
    parent: SpanContext | None
    start: Instant
    end: Instant
    attributes: Attributes


MAX_GAP = 60 * NANOSECONDS
"""Longest pause in nanoseconds between two steps, or two calls, that still counts as the loop's own time: a longer one is
somebody thinking in a notebook, not training. The time of a loop that has ended no step for longer goes elsewhere."""

RECORDED_NAMES = 200
"""Most names of the user's own values: they become a label, so they must not contain step numbers."""


class StepEnded(NamedTuple):
    """One iteration of the user's loop.

    `gap` lies before `start`: time since the loop's previous step when the user's code came between the two.
    `nested` nanoseconds of [start, end] belong to inner loops and to phases other than a checkpoint.
    `runs` lists the watched calls in order: an executable's number, or a negative number (see `FunctionWatched`)
    where it is not visible which executable ran.
    """

    loop: str
    step: int
    start: Instant
    end: Instant
    gap: Duration
    input_wait: Duration
    dispatch: Duration
    nested: Duration
    checkpoint: Duration
    examples: float | None
    tokens: float | None
    failed: bool
    thread: int
    runs: tuple[int, ...]
    parent: SpanContext | None


class StepCompleted(NamedTuple):
    """The device finished the work of a step; found by polling, so `time` is late by at most `uncertainty`.

    Where `loop` is `UNMARKED`, `step` is the number of a call.
    """

    loop: str
    step: int
    time: Instant
    uncertainty: Duration


class TurnsAsked(NamedTuple):
    """At the end of `asked` turns of a loop since the last such event an output was asked for: `ready` were finished.

    Turns are chosen by count (each nth step), so their share is that of all turns. Where an output was finished the
    device was idle until the next call. `loop` as in `StepCompleted`; of calls outside any step, `run` as in `StepEnded`.
    """

    loop: str
    asked: int
    ready: int
    time: Instant
    run: int = 0


class LoopDeclared(NamedTuple):
    """The user's own count of a loop's work: model FLOPs of one step on all of this process's devices together."""

    loop: str
    model_flops: float
    time: Instant


class LoopEntered(NamedTuple):
    """The iteration of a loop began, or the first step of one that is none: it may wait for its first item or compile."""

    loop: str
    time: Instant


class LoopEnded(NamedTuple):
    """The iteration of a loop is over (exhausted or left); `input_wait`: the wait for an item that never came."""

    loop: str
    time: Instant
    input_wait: Duration


class PhaseStarted(NamedTuple):
    """A phase that the user named began; `inside` as in `PhaseEnded`, whose `start` is this `time`."""

    phase: str
    inside: str | None
    time: Instant


class PhaseEnded(NamedTuple):
    """A phase that the user named ended: `checkpoint`, `evaluation`, `initialisation` or any other word.

    `inside` is the loop in whose step the phase lay, None outside steps. `nested` belongs to loops inside the phase.
    """

    phase: str
    inside: str | None
    start: Instant
    end: Instant
    nested: Duration


class Recorded(NamedTuple):
    """A value that the user recorded, such as a loss. `located`: in place of a value, where it began not to be finite."""

    loop: str
    name: str
    value: float
    time: Instant
    located: str = ""


StepRows = list[Any]
"""Plain steps as the hot path notes them: consecutive rows of ROW_LENGTH values, which are `loop`, `step`, `start`,
`end`, `gap`, `input_wait`, `dispatch`, `examples`, `tokens`, `thread` of `StepEnded`, and `runs`, which is 0 where
nothing ran and a bare number where one thing did. A plain step is one whose other fields have their defaults."""

ROW_LENGTH = 11

UNMARKED = ""
"""Value of `loop` in a row that is no step but a call of a watched function outside any, on the main thread or on one
that trains in its place. `step` then counts such calls from 1 on, `dispatch` is the time of the call, and the agent
finds the loops that the calls form."""

RAN = "\0"
"""In the place of a loop's name, before what the newest such call ran."""


def calls_of(runs: object) -> tuple[int, ...]:
    """The watched calls of a row, in order, as `StepEnded.runs` has them."""
    return runs if isinstance(runs, tuple) else (runs,) if isinstance(runs, int) and runs else ()


def steps_of_rows(rows: StepRows) -> Iterator[StepEnded]:
    """The steps in these rows, all of which are whole."""
    for at in range(0, len(rows), ROW_LENGTH):
        *times, examples, tokens, thread, runs = rows[at : at + ROW_LENGTH]
        yield StepEnded._make([*times, 0, 0, examples, tokens, False, thread, calls_of(runs), None])


WITHOUT_JIT = -(1 << 31)
"""Stands in a run's place for a call under `jax.disable_jit()`, which runs no executable of the function."""


class FunctionWatched(NamedTuple):
    """A function is watched. Its `number` (negative) stands for runs whose executable is unknown (`reason`)."""

    number: int
    function: str
    reason: str
    time: Instant


class FunctionCalled(NamedTuple):
    """The calls of a watched function outside any step since the last such event. `run` as in `StepEnded.runs`."""

    run: int
    calls: int
    time: Instant
    thread: int = 0


class ExecutableRan(NamedTuple):
    """One clean run, begun on an idle device and seen to end: `seconds` of device time, to within `uncertainty`."""

    run: int
    seconds: float
    uncertainty: float
    time: Instant


class RunUnderWay(NamedTuple):
    """A run that was dispatched at `start` had not ended at `time`. Emitted once a second for a run that lasts."""

    run: int
    start: Instant
    time: Instant


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
    time: Instant


class CompilePhaseEnded(NamedTuple):
    """A phase ended. `exclusive` is its own time without nested phases. `outermost`: it is nested in no other phase."""

    function: str
    phase: str
    thread: int
    start: Instant
    end: Instant
    exclusive: Duration
    outermost: bool


class Compilation(NamedTuple):
    """An executable was compiled, or read from the persistent cache.

    `phases` are the phases that led to it on this thread, as (phase, start, end). `recompilation` is None for a
    function's first compile, else a cause from the closed set of `jaxobs_recompilations_total`.
    """

    function: str
    executable: int
    thread: int
    time: Instant
    phases: tuple[tuple[str, int, int], ...]
    persistent_cache: str
    recompilation: str | None
    attributes: Attributes
    parent: SpanContext | None


class ExecutableCreated(NamedTuple):
    """The properties of a new executable; `proto` is its serialised `HloModuleProto`.

    `memory` holds (kind, bytes) of XLA's memory analysis, per device. `devices` is the number of local devices it runs
    on. `definition` is the place of the function's source, which tells functions of one
    name apart; empty where unknown. `buffers` is XLA's serialised `BufferAssignmentProto`, a few per cent of the module;
    empty where it is unknown.
    """

    executable: int
    function: str
    time: Instant
    proto: bytes | None
    proto_reason: str
    memory: tuple[tuple[str, int], ...]
    devices: int
    definition: str = ""
    buffers: bytes = b""


def memory_need(memory: Mapping[str, int]) -> int:
    """Bytes of device memory that one run takes by XLA's memory analysis; an aliased output shares its argument's."""
    kinds = ("argument", "output", "temporary", "code")
    return sum(memory.get(kind, 0) for kind in kinds) - memory.get("alias", 0)


class BackendFound(NamedTuple):
    """JAX has a backend: its local devices as (local ordinal, device kind, identity), and this process's index.

    `local_hardware_ids` are the driver's own numbers of these devices, in the same order; empty where JAX has none.
    `environment` has the variables that a script may set when the agent runs already; None where one is not set.
    `coordinator`: the address that the processes of this job have in common, where no launcher tells what they are of.
    """

    platform: str
    devices: tuple[tuple[int, str, str], ...]
    process_index: int
    process_count: int
    jax_version: str
    jaxlib_version: str
    time: Instant
    local_hardware_ids: tuple[int, ...] = ()
    environment: tuple[tuple[str, str | None], ...] = ()
    coordinator: str = ""


PROCESS_MEMORY = -1
"""Value of `MemorySampled.device` for the memory of the process, in which CPU devices keep their arrays."""


class MemorySampled(NamedTuple):
    """Memory at one moment, in bytes: of a local device by its ordinal, or of the whole process (PROCESS_MEMORY).

    `pool` is what the allocator has taken from the device, `largest_free` the largest free block in it, `files` the
    part of a process's memory that is pages of files, which the system takes back when it needs them. None is unknown;
    where all are unknown, `reason` says why.
    """

    device: int
    in_use: int | None
    peak: int | None
    limit: int | None
    pool: int | None
    largest_free: int | None
    reason: str
    time: Instant
    files: int | None = None


class LiveArraysCounted(NamedTuple):
    """A census of the live arrays on this process's devices, or why there was none (then `arrays` is None).

    `groups`: the largest groups, as (shape, dtype, sharding, count, bytes, the line that made most of these bytes).
    `lines`: the lines that made the most bytes, as (line, count, bytes); an empty line stands for arrays whose line is
    unknown. `lock_seconds`: how long the listing held the interpreter lock.
    """

    arrays: int | None
    bytes: int | None
    groups: tuple[tuple[str, str, str, int, int, str], ...]
    lines: tuple[tuple[str, int, int], ...]
    lock_seconds: float
    reason: str
    time: Instant


class MainThreadSampled(NamedTuple):
    """The activities of the main thread from `start` to `end`, from samples of its Python stack.

    `rows` are (loop, line, callee, activity, seconds, samples): the loop whose step was under way, or that may have
    been between two marked steps; where none is marked RAN and the number of what was called last; else empty;
    the line of the user's program; what it waits in below that line; an activity of `jaxobs.vocabulary.activities`. The
    seconds of all rows add up to the time between the first and the last sample. `thread`: the main thread's number, as
    in `StepEnded`; 0 where it is not told. `callers`: for each row the lines of the user's that called its own, outermost
    first.
    """

    start: Instant
    end: Instant
    rows: tuple[tuple[str, str, str, str, float, int], ...]
    thread: int = 0
    callers: tuple[tuple[str, ...], ...] = ()


class StacksTaken(NamedTuple):
    """The stacks of the job's threads but for ours, taken because the agent saw that nothing got on.

    `threads` are (thread, name, line, callee, activity, frames): `thread` as in `StepEnded`, the next three as in
    `MainThreadSampled`, and the lines of its stack, the innermost first, each as `file.py:12 function`.
    """

    threads: tuple[tuple[int, str, str, str, str, tuple[str, ...]], ...]
    time: Instant


class ProfileWindow(NamedTuple):
    """A session of JAX's profiler is over, ours or the user's own.

    `kind`: `scheduled`, `requested` or `user`. It recorded from `start` to `end`; `cost` is the time that it cost the
    job: starting, `stop()`, and the slowdown of traced steps. `xspace` is the serialised trace; None where there is
    none to read, and then `reason` says why. `outcome` is the label of `jaxobs_profile_windows_total`. `path`: where
    the raw trace was kept, empty where it was not. `lead`: how long before `start` the trace's clock began to count. It
    does so before the profiler starts, which takes no time on a CPU and a while on a GPU, and holds up the job's Python.
    """

    kind: str
    outcome: str
    start: Instant
    end: Instant
    cost: Duration
    xspace: bytes | None
    path: str
    reason: str
    lead: Duration = 0


# fmt: off
Event = (
    Measured | SpanEnded | StepEnded | StepCompleted | TurnsAsked | LoopDeclared | LoopEntered
    | LoopEnded | PhaseStarted | PhaseEnded | Recorded | FunctionWatched | FunctionCalled | ExecutableRan
    | RunUnderWay | CompilePhaseStarted | CompilePhaseEnded | Compilation | ExecutableCreated
    | BackendFound | MemorySampled | LiveArraysCounted | MainThreadSampled | StacksTaken | ProfileWindow
    | SourceReported | ProbeReported
)
# fmt: on

EVENT_TYPES: tuple[type[Event], ...] = get_args(Event)
"""All event types; the index of each is its number on the wire. Both ends run the same installation."""


@cache
def units_of(event_type: type) -> Mapping[str, str]:
    """By field of an event, whether it is an `instant` or a `duration`; other fields are neither."""
    hints = get_type_hints(event_type, include_extras=True)
    # The arguments too, of `Instant | None`.
    parts = [(name, part) for name, hint in hints.items() for part in (hint, *get_args(hint))]
    return {name: str(part.__metadata__[0]) for name, part in parts if get_origin(part) is Annotated}
