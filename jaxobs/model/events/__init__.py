"""Events: immutable facts, each with monotonic time in nanoseconds, that travel from the training process to the agent.

An event holds only `str`, `bytes`, `int`, `float`, `bool`, `None` and tuples of these, because only these can cross the
pipe (`flow/wire.py`). Third-party plugins emit `Measured` and `SpanEnded`; the others are jaxobs's own.
"""

from __future__ import annotations

from typing import get_args

from jaxobs.model.events.attributes import Attributes, AttributeValue, SpanContext
from jaxobs.model.events.compilation import (
    CACHE_SECONDS_SAVED,
    CALL_FILE,
    CALL_FUNCTION,
    CALL_LINE,
    MISS_ARGUMENT,
    MISS_DIFFERENCES,
    MISS_NEW,
    MISS_OLD,
    MISS_REASON,
    Compilation,
    CompilePhaseEnded,
    CompilePhaseStarted,
    ExecutableCreated,
)
from jaxobs.model.events.observations import (
    PROCESS_MEMORY,
    BackendFound,
    LiveArraysCounted,
    MainThreadSampled,
    MemorySampled,
    ProfileWindow,
)
from jaxobs.model.events.runs import ExecutableRan, FunctionCalled, FunctionWatched, RunUnderWay
from jaxobs.model.events.sources import Measured, ProbeReported, SourceReported, SpanEnded
from jaxobs.model.events.steps import (
    LONGEST_GAP,
    RECORDED_NAMES,
    ROW_LENGTH,
    UNMARKED,
    LoopDeclared,
    LoopEnded,
    LoopEntered,
    PhaseEnded,
    PhaseStarted,
    Recorded,
    StepCompleted,
    StepEnded,
    StepRows,
    StepUnseen,
    TurnsAsked,
    steps_of_rows,
)

__all__ = [
    "CACHE_SECONDS_SAVED",
    "CALL_FILE",
    "CALL_FUNCTION",
    "CALL_LINE",
    "EVENT_TYPES",
    "LONGEST_GAP",
    "MISS_ARGUMENT",
    "MISS_DIFFERENCES",
    "MISS_NEW",
    "MISS_OLD",
    "MISS_REASON",
    "PROCESS_MEMORY",
    "RECORDED_NAMES",
    "ROW_LENGTH",
    "UNMARKED",
    "AttributeValue",
    "Attributes",
    "BackendFound",
    "Compilation",
    "CompilePhaseEnded",
    "CompilePhaseStarted",
    "Event",
    "ExecutableCreated",
    "ExecutableRan",
    "FunctionCalled",
    "FunctionWatched",
    "LiveArraysCounted",
    "LoopDeclared",
    "LoopEnded",
    "LoopEntered",
    "MainThreadSampled",
    "Measured",
    "MemorySampled",
    "PhaseEnded",
    "PhaseStarted",
    "ProbeReported",
    "ProfileWindow",
    "Recorded",
    "RunUnderWay",
    "SourceReported",
    "SpanContext",
    "SpanEnded",
    "StepCompleted",
    "StepEnded",
    "StepRows",
    "StepUnseen",
    "TurnsAsked",
    "steps_of_rows",
]

Event = (
    Measured
    | SpanEnded
    | StepEnded
    | StepCompleted
    | StepUnseen
    | TurnsAsked
    | LoopDeclared
    | LoopEntered
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

EVENT_TYPES: tuple[type[Event], ...] = get_args(Event)
"""All event types; the index of each is its number on the wire. Both ends run the same installation."""
