"""A base class for probes of one library, which wait until the job imports it and then wrap its functions."""

from __future__ import annotations

from abc import abstractmethod
from types import ModuleType
from typing import ClassVar

from jaxobs.plugin.base import Probe
from jaxobs.plugin.protocol import Job
from jaxobs.plugin.wrapping import Wrapping


class LibraryProbe(Probe):
    """Calls `wrap` once for each of `modules` that the job imports, and imports none of them itself."""

    modules: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self.reason = f"{self.modules[0]} has not been imported"
        self._wrapping: Wrapping | None = None

    @abstractmethod
    def wrap(self, module: ModuleType, wrapping: Wrapping) -> None:
        """Wrap the functions to mark or record. A name that this version of the library lacks is skipped."""

    def start(self, job: Job) -> None:
        self._wrapping = Wrapping(job)
        for module in self.modules:
            job.when_imported(module, self._imported)

    def stop(self) -> None:
        wrapping, self._wrapping = self._wrapping, None
        if wrapping is not None:
            wrapping.undo()

    @property
    def steps(self) -> int:
        """Steps that the job has ended so far; 0 once the probe is stopped."""
        return 0 if self._wrapping is None else self._wrapping.job.progress().steps

    def _imported(self, module: ModuleType) -> None:
        if self._wrapping is not None:
            self.reason = ""
            self.wrap(module, self._wrapping)
