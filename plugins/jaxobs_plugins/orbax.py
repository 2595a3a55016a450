"""Probe `orbax`: where a job saves and restores checkpoints with Orbax, the time it waits for that is a phase.

Saving is the phase `checkpoint`; of an asynchronous save that is the part for which the job stands still, as what goes on
behind it runs on Orbax's own threads. Restoring is `initialisation` before the first step, and `checkpoint` after it.
Public names alone are wrapped (seen in orbax-checkpoint 0.11 and 0.12).
"""

from __future__ import annotations

from types import ModuleType

from jaxobs.plugin.base import Probe
from jaxobs.plugin.protocol import Job
from jaxobs.plugin.wrapping import Wrapping

SAVING = ("save", "save_checkpointables", "save_pytree")
LOADING = ("restore", "load", "load_checkpointables", "load_pytree")
WAITING = ("wait_until_finished", "wait", "close")
"""Wait for saves under way, if there are any."""

CLASSES = (
    "CheckpointManager",
    "Checkpointer",
    "AsyncCheckpointer",
    "StandardCheckpointer",
    "PyTreeCheckpointer",
)
ASKED_EACH_STEP = "CheckpointManager"
"""Its `save` is called in each step and saves in few; only what it then saves is certain to be a checkpoint."""


class OrbaxProbe(Probe):
    """Wraps the classes of `orbax.checkpoint`, and the functions of its second version, once the job has imported it."""

    reason = "orbax.checkpoint has not been imported"

    def __init__(self) -> None:
        self._job: Job | None = None
        self._wrapping: Wrapping | None = None

    def start(self, job: Job) -> None:
        self._job = job
        job.when_imported("orbax.checkpoint", self._imported)

    def stop(self) -> None:
        self._job = None
        if self._wrapping is not None:
            self._wrapping.undo()

    def _imported(self, orbax: ModuleType) -> None:
        if self._job is None:
            return
        self.reason = ""
        self._wrapping = Wrapping(self._job)
        for name in CLASSES:
            self._wrap(getattr(orbax, name, None), asked_each_step=name == ASKED_EACH_STEP)
        second = getattr(getattr(orbax, "experimental", None), "v1", None)
        self._wrap(second)
        self._wrap(getattr(getattr(second, "training", None), "Checkpointer", None), asked_each_step=True)

    def _wrap(self, owner: object, *, asked_each_step: bool = False) -> None:
        if not isinstance(owner, type | ModuleType):
            return
        wrapping = self._wrapping
        assert wrapping is not None
        for name in SAVING:
            wrapping.phase(owner, name, lambda: "checkpoint", tentative=asked_each_step)
        for name in WAITING:
            wrapping.phase(owner, name, lambda: "checkpoint", tentative=True)
        for name in LOADING:
            wrapping.phase(owner, name, self._loading)

    def _loading(self) -> str:
        return "checkpoint" if self._job is not None and self._job.progress().steps else "initialisation"
