"""A base class for probes of one library, which wait until the job imports it and then wrap its functions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import ModuleType
from typing import Any, ClassVar

from jaxobs.plugin.base import Probe
from jaxobs.plugin.protocol import Job
from jaxobs.plugin.wrapping import function_of, replace, standing_in


class LibraryProbe(Probe):
    """Calls `wrap` once for each of `modules` that the job imports, and imports none of them itself."""

    modules: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.reason = f"{self.modules[0]} has not been imported"
        self._job: Job | None = None
        self._undo: list[Callable[[], None]] = []

    @abstractmethod
    def wrap(self, module: ModuleType) -> None:
        """Wrap functions by `phase` and `values`. A name that this version of the library lacks is skipped."""

    def start(self, job: Job) -> None:
        self._job = job
        for module in self.modules:
            job.when_imported(module, self._imported)

    def stop(self) -> None:
        """Put the original functions back. A wrapper that others have wrapped since stays, and only calls through."""
        self._job = None
        for undo in self._undo:
            undo()
        self._undo.clear()

    @property
    def steps(self) -> int:
        """Steps that the job has ended so far; 0 once the probe is stopped."""
        return 0 if self._job is None else self._job.progress().steps

    def phase(self, owner: Any, name: str, phase_of: Callable[[], str], *, tentative: bool = False) -> None:
        """Mark each call of `owner.name` as a phase (`Job.phase`), named by `phase_of` when the call begins."""
        function, job = function_of(owner, name), self._job
        if function is None or job is None:
            return

        def enter(marks: ExitStack) -> None:
            marks.enter_context(job.phase(phase_of(), tentative=tentative))

        begin = job.guard(enter)

        @standing_in(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            with ExitStack() as marks:  # what began ends, also where the probe is set aside by then
                if self._job is job:
                    begin(marks)
                return function(*args, **kwargs)

        self._undo.append(replace(owner, {name: marked}))

    def values(self, owner: Any, name: str, values_of: Callable[..., Mapping[str, Any]]) -> None:
        """Record the values that calls of `owner.name` are given (`Job.record`), once the library has taken them.

        `values_of` gets the arguments of the call and returns the values by name.
        """
        function, job = function_of(owner, name), self._job
        if function is None or job is None:
            return

        def note(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            job.record(values_of(*args, **kwargs))

        record = job.guard(note)

        @standing_in(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if self._job is job:
                record(args, kwargs)
            return result

        self._undo.append(replace(owner, {name: recorded}))

    def _imported(self, module: ModuleType) -> None:
        if self._job is not None:
            self.reason = ""
            self.wrap(module)
