"""What a loop needs of the other rooms, as protocols that hold no more of each than a loop uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile
from jaxobs.derive.profiler_windows.parts import StepSpan
from jaxobs.derive.steps.plain_steps import PlainSteps
from jaxobs.hardware.peaks import Peaks


class Compilations(Protocol):
    """When each thread was compiling; times are monotonic nanoseconds."""

    def overlap(self, thread: int, start: int, end: int, *, forget: bool) -> int:
        """Nanoseconds of [start, end] in which the thread was compiling; `forget`: drop the compiles that lie in it."""

    def within(self, thread: int, start: int, end: int) -> int:
        """Nanoseconds of [start, end] in which the thread was compiling."""

    def compiled_within(self, thread: int, start: int, end: int) -> set[str]:
        """Functions whose executables the thread compiled in [start, end]."""

    def leave_out_phases(self, loop: str, thread: int) -> None:
        """Drop what the thread compiled in phases inside the loop's step."""

    def is_apart(self, thread: int, start: int) -> bool:
        """Whether the thread has compiled nothing since `start`."""


class Executables(Protocol):
    """The job's executables. A `run` is a watched call, by number as in `StepEnded.runs`."""

    @property
    def peaks(self) -> Peaks | None:
        """The device's peaks, which their runs are compared with; None before a backend was found."""

    def get(self, run: int) -> Executable | None:
        """The executable that ran; None where it is not visible which one did."""

    def of_fingerprint(self, fingerprint: str) -> Executable | None:
        """The newest executable with this content."""

    def title_of(self, run: int) -> str:
        """The function of a run, distinguished from others of that name; empty where it is not known."""

    def is_watched(self, function: str) -> bool:
        """Whether a function of that name was given to `obs.watch()`."""

    def why_unseen(self, runs: Iterable[int]) -> str | None:
        """The watched function of a run whose executable is not visible, and why; None where all are visible."""


class Runs(Protocol):
    """How often each executable ran, and how long the device took. A `run` is a watched call, as above."""

    @property
    def local_devices(self) -> int:
        """Devices of this process, at least one."""

    def ran_in_loop(self, run: int, calls: int = 1) -> object:
        """Add calls whose device seconds the loop will report by `spent`."""

    def ran_untimed(self, run: int, calls: int) -> None:
        """Note that the loop will not report the seconds of these calls."""

    def seconds_of(self, run: int) -> float | None:
        """Device seconds of one run; None where none was timed."""

    def spent(self, run: int, seconds: float) -> None:
        """Add device seconds of runs in a loop."""

    def fitted(self, run: int, share: float) -> None:
        """Note that the loop's wall time recently had room for that share of the seconds of its timed runs."""

    def timed_runs(self, run: int) -> int:
        """How many runs `seconds_of` is from, timed by polling or traced."""

    def spaced(self, runs: tuple[int, ...], spacing: float) -> None:
        """Note that steps which each ran these and nothing else completed `spacing` seconds apart."""


class ProfilerWindows(Protocol):
    """What profiler windows saw of a loop, by its name."""

    def compiled(self, loop: str, functions: Iterable[str], time: int) -> None:
        """Executables of these functions were compiled in a step of the loop."""

    def steps_ended(self, loop: str, steps: StepSpan | PlainSteps) -> None:
        """Add one step, or many."""

    def of(self, loop: str, time: int) -> LoopProfile | None:
        """The profile of the loop that is still valid at `time`, if any."""

    def why_none(self, loop: str) -> str:
        """Why there is no valid profile of the loop."""


class Collaborators(NamedTuple):
    """The other rooms that every loop of the job uses."""

    compilations: Compilations
    executables: Executables
    runs: Runs
    windows: ProfilerWindows
