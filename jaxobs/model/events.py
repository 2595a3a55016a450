"""Events: immutable facts, each with monotonic time in nanoseconds, that travel from the training process to the agent.

An event holds only `str`, `bytes`, `int`, `float`, `bool`, `None` and tuples of these, because that is what crosses the
pipe (`flow/wire.py`). Third-party plugins emit `Measured` and `SpanEnded`; the rest is what the core folds.

Longer than other files: all that the two processes can say to each other is read in one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

AttributeValue = str | int | float | bool
Attributes = tuple[tuple[str, AttributeValue], ...]

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
    time: int


class SpanEnded(NamedTuple):
    """A finished span that a plugin wants to be exported as it is."""

    name: str
    start: int
    end: int
    attributes: Attributes
    parent: SpanContext | None


class StepEnded(NamedTuple):
    """One turn of the user's loop.

    `gap` lies before `start`: time since the loop's previous step when the user's code came between the two.
    `nested` nanoseconds of [start, end] belong to inner loops and to phases other than a checkpoint.
    `runs` lists the watched calls in order: an executable's number, or a negative number (see `FunctionWatched`)
    where it is not visible which executable ran.
    """

    loop: str
    step: int
    start: int
    end: int
    gap: int
    input_wait: int
    dispatch: int
    nested: int
    checkpoint: int
    examples: float | None
    tokens: float | None
    failed: bool
    thread: int
    runs: tuple[int, ...]
    parent: SpanContext | None


class StepCompleted(NamedTuple):
    """The device finished what step `step` of `loop` had dispatched, seen by polling; late by at most `uncertainty`.

    Where `loop` is `UNMARKED`, `step` is the number of a call.
    """

    loop: str
    step: int
    time: int
    uncertainty: int


class LoopDeclared(NamedTuple):
    """The user's own count of a loop's work: model FLOPs of one step, of all this process's devices together."""

    loop: str
    model_flops: float
    time: int


class LoopEnded(NamedTuple):
    """The iteration of a loop is over (exhausted or left); `input_wait`: the wait for an item that never came."""

    loop: str
    time: int
    input_wait: int


class PhaseStarted(NamedTuple):
    """A stretch that the user named began; `inside` as in `PhaseEnded`, whose `start` is this `time`."""

    phase: str
    inside: str | None
    time: int


class PhaseEnded(NamedTuple):
    """A stretch of the run that the user named: `checkpoint`, `evaluation`, `initialisation` or any other word.

    `inside` is the loop in whose step the phase lay, None outside steps. `nested` belongs to loops inside the phase.
    """

    phase: str
    inside: str | None
    start: int
    end: int
    nested: int


class Recorded(NamedTuple):
    """A value that the user recorded beside ours."""

    loop: str
    name: str
    value: float
    time: int


class FunctionWatched(NamedTuple):
    """`number` (negative) stands for this watched function where it is not visible which executable ran, and why."""

    number: int
    function: str
    reason: str
    time: int


class FunctionCalled(NamedTuple):
    """Calls of a watched function outside any step, since the last such event. `run` as in `StepEnded.runs`."""

    run: int
    calls: int
    time: int


class ExecutableRan(NamedTuple):
    """One sampled run: `seconds` of device time, known to within `uncertainty` seconds."""

    run: int
    seconds: float
    uncertainty: float
    time: int


class RunUnderWay(NamedTuple):
    """A run that was dispatched at `start` had not ended at `time`. Told once a second of those that last."""

    run: int
    start: int
    time: int


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
    """

    executable: int
    function: str
    time: int
    proto: bytes | None
    proto_reason: str
    memory: tuple[tuple[str, int], ...]
    devices: int


class BackendFound(NamedTuple):
    """JAX has a backend: its local devices as (local ordinal, device kind, identity), and which process this is.

    `local_hardware_ids` are the driver's own numbers of these devices, in the same order; empty where JAX has none.
    """

    platform: str
    devices: tuple[tuple[int, str, str], ...]
    process_index: int
    process_count: int
    jax_version: str
    jaxlib_version: str
    time: int
    local_hardware_ids: tuple[int, ...] = ()


class MemorySampled(NamedTuple):
    """Memory at one moment, in bytes: of a local device by its ordinal, or of the whole process (PROCESS_MEMORY).

    `pool` is what the allocator has taken from the device, `largest_free` the largest free block in it, `files` the part
    of what a process uses that is pages of files, which the system takes back when it needs them. What is None is not
    known; `reason` says why nothing is, where nothing is.
    """

    device: int
    in_use: int | None
    peak: int | None
    limit: int | None
    pool: int | None
    largest_free: int | None
    reason: str
    time: int
    files: int | None = None


class LiveArraysCounted(NamedTuple):
    """A census of the live arrays on this process's devices, or why there was none (then `arrays` is None).

    `groups`: the largest, as (shape, dtype, sharding, count, bytes, the line that made most of these bytes).
    `lines`: those that made the most bytes, as (line, count, bytes); an empty line stands for arrays whose line is not
    known. `lines_reason`: why there are no lines. `lock_seconds`: how long listing them held the interpreter lock.
    """

    arrays: int | None
    bytes: int | None
    groups: tuple[tuple[str, str, str, int, int, str], ...]
    lines: tuple[tuple[str, int, int], ...]
    lines_reason: str
    lock_seconds: float
    reason: str
    time: int


class MainThreadSampled(NamedTuple):
    """Where the main thread was from `start` to `end`, as samples of its Python stack tell.

    `rows` are (loop, line, what it waits in below that line, activity, seconds, samples): the loop whose step was under
    way, empty outside steps; the line as the user knows it; an activity of `jaxobs.vocabulary.activities`. The
    seconds of all rows add up to the time between the first and the last sample.
    """

    start: int
    end: int
    rows: tuple[tuple[str, str, str, str, float, int], ...]


class ProfileWindow(NamedTuple):
    """A session of JAX's profiler is over, ours or the user's own.

    `kind`: `scheduled`, `requested` or `user`. It recorded from `start` to `end`; `cost` is the time that it took from
    the job in all: start, `stop()`, and what the traced steps were slower. `xspace` is the serialised trace, None where
    there is none to read, and then `reason` says why. `outcome` is the label of `jaxobs_profile_windows_total`.
    `path`: where the raw trace was kept, empty where it was not.
    """

    kind: str
    outcome: str
    start: int
    end: int
    cost: int
    xspace: bytes | None
    path: str
    reason: str


class SourceReported(NamedTuple):
    """How a plugin fares: seconds spent in it, failures, when it last worked, and why it is set aside if it is.

    One that is `up` and has a `reason` did not fail: there is nothing for it to tell of, and the reason says why.
    """

    source: str
    kind: str
    up: bool
    seconds: float
    failures: int
    last_success: int | None
    reason: str
    time: int


class ProbeReported(NamedTuple):
    """Running totals of the probe side: events emitted, dropped and refused, listeners put back, CPU of its threads.

    What was emitted and neither dropped nor refused is in the events that the agent got before this one, which is among
    them, but for what was emitted while it was made.
    """

    emitted: int
    dropped: int
    refused: int
    listeners_restored: int
    cpu_seconds: float
    time: int


PROCESS_MEMORY = -1
"""In place of a device's ordinal in `MemorySampled`: the memory of the process, where CPU devices keep their arrays."""

Event = (
    Measured
    | SpanEnded
    | StepEnded
    | StepCompleted
    | LoopDeclared
    | LoopEnded
    | PhaseStarted
    | PhaseEnded
    | Recorded
    | FunctionWatched
    | FunctionCalled
    | ExecutableRan
    | RunUnderWay
    | CompilePhaseStarted
    | CompilePhaseEnded
    | Compilation
    | ExecutableCreated
    | BackendFound
    | MemorySampled
    | LiveArraysCounted
    | MainThreadSampled
    | ProfileWindow
    | SourceReported
    | ProbeReported
)

EVENT_TYPES: tuple[type[Event], ...] = (
    Measured,
    SpanEnded,
    StepEnded,
    StepCompleted,
    LoopDeclared,
    LoopEnded,
    PhaseStarted,
    PhaseEnded,
    Recorded,
    FunctionWatched,
    FunctionCalled,
    ExecutableRan,
    RunUnderWay,
    CompilePhaseStarted,
    CompilePhaseEnded,
    Compilation,
    ExecutableCreated,
    BackendFound,
    MemorySampled,
    LiveArraysCounted,
    MainThreadSampled,
    ProfileWindow,
    SourceReported,
    ProbeReported,
)
"""Every event type by its number on the wire. Both ends are started from the same installation."""

StepRows = list[Any]
"""Plain steps as the hot path notes them, one after the other, each as a row of ROW_LENGTH values: `loop`, `step`,
`start`, `end`, `gap`, `input_wait`, `dispatch`, `examples`, `tokens`, `thread` of `StepEnded`, and `runs`, which is 0
where nothing ran and a bare number where one thing did. A plain step is one of which there is nothing else to tell."""

ROW_LENGTH = 11

UNMARKED = ""
"""In place of a loop's name in a row: no step, but a call of a watched function on the main thread outside any. `step`
then counts such calls from 1 on, `dispatch` is the call, and the agent finds the loops that the calls make."""


def steps_of_rows(rows: StepRows) -> Iterator[StepEnded]:
    """The steps in whole rows. Raises ValueError where the last one is cut."""
    if len(rows) % ROW_LENGTH:
        raise ValueError(f"{len(rows)} values are no whole rows of {ROW_LENGTH}")
    for at in range(0, len(rows), ROW_LENGTH):
        loop, step, start, end, gap, wait, dispatch, examples, tokens, thread, runs = rows[
            at : at + ROW_LENGTH
        ]
        ran = runs if isinstance(runs, tuple) else (runs,) if runs else ()
        yield StepEnded(
            loop, step, start, end, gap, wait, dispatch, 0, 0, examples, tokens, False, thread, ran, None
        )
