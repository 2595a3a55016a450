"""A probe of one library, for those that mark what the library does: it waits for the import and then wraps functions."""

from __future__ import annotations

from abc import abstractmethod
from types import ModuleType
from typing import ClassVar

from jaxobs.plugin.base import Probe
from jaxobs.plugin.protocol import Job
from jaxobs.plugin.wrapping import Wrapping


class LibraryProbe(Probe):
    """Nothing of the library is imported for it: `wrap` is called once for each of `modules` that the job imports."""

    modules: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.reason = f"{self.modules[0]} has not been imported"
        self._job: Job | None = None
        self._wrapping: Wrapping | None = None

    @abstractmethod
    def wrap(self, module: ModuleType, wrapping: Wrapping) -> None:
        """Wrap what is to be marked or recorded. A name that this version of the library lacks is passed over."""

    def start(self, job: Job) -> None:
        self._job = job
        self._wrapping = Wrapping(job)
        for module in self.modules:
            job.when_imported(module, self._imported)

    def stop(self) -> None:
        self._job = None
        if self._wrapping is not None:
            self._wrapping.undo()

    @property
    def steps(self) -> int:
        """Steps that the job has ended so far; 0 once the probe is stopped."""
        return 0 if self._job is None else self._job.progress().steps

    def _imported(self, module: ModuleType) -> None:
        if self._job is not None and self._wrapping is not None:
            self.reason = ""
            self.wrap(module, self._wrapping)
