"""The objects that plugins receive: the training process (`Job`), the agent process (`Agent`), and batches of news."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, Protocol, TypeVar

from jaxobs.model.clock import ClockAnchor
from jaxobs.model.events import Event, Measured, Span, SpanEnded
from jaxobs.model.metrics import Catalogue
from jaxobs.model.snapshot import SnapshotData

Hook = TypeVar("Hook", bound=Callable[..., None])


@dataclass(frozen=True, slots=True)
class Remark:
    """What a plugin's `check()` found, in one line. A `problem` needs attention; its line says what to do."""

    text: str
    problem: bool = False


class Job(Protocol):
    """What a probe gets of the training process."""

    @property
    def settings(self) -> Mapping[str, Any]: ...

    def emit(self, event: Event) -> None:
        """Never blocks and never raises; the oldest events are dropped, and counted, when the agent cannot follow.

        `ExecutableCreated` is to be emitted on the compiling thread: watched functions learn from it which executable
        they run.
        """

    def guard(self, hook: Hook) -> Hook:
        """Wrap a function that JAX or the user's thread will call: it then never raises there, and is timed."""

    def executable_number(self) -> int:
        """A fresh number for an executable in `Compilation` and `ExecutableCreated` events."""

    def trace_began(self) -> None:
        """To be called on the tracing thread: until `trace_ended`, watched functions called on it run nothing."""

    def trace_ended(self) -> None: ...

    def listeners_restored(self) -> None:
        """Somebody had cleared JAX's listeners, and they were put back."""

    def progress(self) -> Progress: ...

    def annotate_steps(self, session: object | None) -> None:
        """Steps carry JAX's step annotation while `session`, a profiler session, is not None."""

    def when_imported(self, module: str, action: Callable[[ModuleType], None]) -> None:
        """Call `action(module)` once the job has imported a library, at once if it has; nothing is imported for it.

        `action` is a method of the probe, and does not keep it alive. It runs on the importing thread, and is guarded.
        """

    def phase(self, name: str, *, tentative: bool = False) -> AbstractContextManager[None]:
        """A stretch of time that a library takes for itself (`checkpoint`, `initialisation`), as `obs.phase` marks one.

        Marks nothing on other threads than the main one, for which no step waits, nor inside a checkpoint or an
        initialisation that is marked already, by the script or by an outer call. `tentative`: for calls that often do
        nothing; they mark a phase if they last ten milliseconds, or if a phase that is certain begins inside.
        """

    def record(self, values: Mapping[str, Any]) -> None:
        """Values that the script gives to a library, as `obs.record` takes them; from other threads they are left out."""

    def switch_off(self, reason: str) -> None:
        """The probe does nothing any more, by its own decision: its source is down, with this reason, said once."""


class Progress(NamedTuple):
    """The progress of the job: steps ended in all loops, and when an executable was last made (None: none yet).

    `module_bytes`: the total size of the serialised modules of all executables. `agents`: the number of agents so far;
    a new one knows nothing of what probes sent to earlier ones.
    """

    steps: int
    compiled: int | None
    module_bytes: int = 0
    agents: int = 1


class Agent(Protocol):
    """What a collector or an exporter gets of the agent process."""

    @property
    def settings(self) -> Mapping[str, Any]: ...

    @property
    def resource(self) -> Mapping[str, str]:
        """Who and where, under OpenTelemetry's dotted names; grows when a backend is found, `jax.platform` last."""

    @property
    def clock(self) -> ClockAnchor: ...

    @property
    def catalogue(self) -> Catalogue: ...

    def emit(self, event: Measured | SpanEnded) -> None:
        """Fold a value of a declared metric, or export a span, outside `collect()`."""

    def profile(self, seconds: float, keep: bool) -> None:
        """Ask the job for a profiler window; with `keep` the raw trace stays in the run's folder.

        Does not wait: what became of it is seen in `jaxobs_profile_windows_total` and the span `jax.profile`.
        """

    def announce_address(self, address: str) -> None:
        """Make known the URL at which this exporter serves: to the log, the snapshot and `jaxobs_build_info`."""

    def log(self, message: str) -> None:
        """One line for the user, passed on to the training process's logger `jaxobs`, at most one a minute."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What is new since the exporter's last turn. `events` and `spans` have lost their oldest if it was too slow."""

    snapshot: SnapshotData
    events: tuple[Event, ...]
    spans: tuple[Span, ...]
