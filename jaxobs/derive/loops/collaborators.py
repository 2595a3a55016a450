"""What a loop needs of the other rooms: given to it once, and no more of each than it uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile
from jaxobs.derive.profiler_windows.parts import StepSpan
from jaxobs.derive.steps.plain_steps import PlainSteps
from jaxobs.hardware.peaks import Peaks


class Compilations(Protocol):
    """When which thread was compiling; times are monotonic nanoseconds."""

    def overlap(self, thread: int, start: int, end: int, *, forget: bool) -> int:
        """Nanoseconds of [start, end] in which it was compiling; `forget` what lies within."""

    def within(self, thread: int, start: int, end: int) -> int:
        """Nanoseconds of [start, end] in which it was compiling."""

    def compiled_within(self, thread: int, start: int, end: int) -> set[str]:
        """Functions whose executables it made in [start, end]."""

    def is_apart(self, thread: int, start: int) -> bool:
        """Whether it has compiled nothing since `start`."""


class Executables(Protocol):
    """Which executables there are. A `run` is a watched call, by number as in `StepEnded.runs`."""

    @property
    def peaks(self) -> Peaks | None:
        """What their runs are held against; None before a backend was found."""

    def get(self, run: int) -> Executable | None:
        """None where it is not visible which one ran."""

    def of_fingerprint(self, fingerprint: str) -> Executable | None:
        """The newest with this content."""

    def title_of(self, run: int) -> str:
        """Its function, told apart from others of that name; empty where it is not known."""

    def is_watched(self, function: str) -> bool:
        """Whether a function of that name was given to `obs.watch()`."""

    def why_unseen(self, runs: Iterable[int]) -> str | None:
        """Where it is not visible which executable ran: the watched function, and why."""


class Runs(Protocol):
    """How often each executable ran, and how long the device took. A `run` is a watched call, as above."""

    @property
    def local_devices(self) -> int:
        """At least one."""

    def ran_in_loop(self, run: int, calls: int = 1) -> object:
        """Calls whose seconds the loop tells (`spent`)."""

    def seconds_of(self, run: int) -> float | None:
        """Device seconds of one run, where some were timed."""

    def spent(self, run: int, seconds: float) -> None:
        """Device seconds of runs in a loop."""

    def fitted(self, run: int, share: float) -> None:
        """The loop recently had room for that share of the seconds of its timed runs."""

    def samples_of(self, run: int) -> int:
        """How many runs were timed as they were, and not only while the profiler traced them."""

    def spaced(self, runs: tuple[int, ...], spacing: float) -> None:
        """Steps that ran these, and nothing else, completed so many seconds apart."""


class ProfilerWindows(Protocol):
    """What profiler windows saw of a loop, by its name."""

    def compiled(self, loop: str, functions: Iterable[str], time: int) -> None:
        """Executables of these functions were made in a step of the loop."""

    def steps_ended(self, loop: str, steps: StepSpan | PlainSteps) -> None:
        """One step, or many."""

    def of(self, loop: str, time: int) -> LoopProfile | None:
        """What holds at `time`, if anything does."""

    def why_none(self, loop: str) -> str:
        """Why nothing does."""


class Collaborators(NamedTuple):
    """What every loop of the job is given."""

    compilations: Compilations
    executables: Executables
    runs: Runs
    windows: ProfilerWindows
