"""What a loop needs of the other rooms: given to it once, and no more of each than it uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile
from jaxobs.derive.profiler_windows.parts import StepSpan
from jaxobs.derive.steps.plain_steps import PlainSteps


class Compilations(Protocol):
    """When which thread was compiling; times are monotonic nanoseconds."""

    def overlap(self, thread: int, start: int, end: int, *, forget: bool) -> int:
        """Nanoseconds of [start, end] in which it was compiling; `forget` what lies within."""

    def within(self, thread: int, start: int, end: int) -> int:
        """Nanoseconds of [start, end] in which it was compiling."""

    def made_within(self, thread: int, start: int, end: int) -> set[str]:
        """Functions whose executables it made in [start, end]."""

    def is_apart(self, thread: int, start: int) -> bool:
        """Whether it has compiled nothing since `start`."""


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
    windows: ProfilerWindows
