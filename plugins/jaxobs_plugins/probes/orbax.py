"""Probe `orbax`: records the time that a job waits for Orbax to save and restore checkpoints as phases.

Saving is the phase `checkpoint`. Of an asynchronous save, the phase is only the part during which the job waits; the
rest runs on Orbax's own threads. Restoring is `initialisation` before the first step, and `checkpoint` after it.
Only public names are wrapped (those of orbax-checkpoint 0.11 and 0.12).
"""

from __future__ import annotations

from types import ModuleType

from jaxobs.plugin.library_probe import LibraryProbe

SAVING = ("save", "save_checkpointables", "save_pytree")
LOADING = ("restore", "load", "load_checkpointables", "load_pytree")
WAITING = ("wait_until_finished", "wait", "close")
"""Methods that wait for saves under way, if there are any."""

CLASSES = (
    "CheckpointManager", "Checkpointer", "AsyncCheckpointer", "StandardCheckpointer", "PyTreeCheckpointer",
)  # fmt: skip
ASKED_EACH_STEP = "CheckpointManager"
"""The class whose `save` jobs call in every step although it saves in few: most of its calls are no checkpoint."""


class OrbaxProbe(LibraryProbe):
    """Wraps the classes of `orbax.checkpoint`, and the functions of its second API, once the job has imported it."""

    modules = ("orbax.checkpoint",)

    def wrap(self, module: ModuleType) -> None:
        """Wrap the classes of Orbax's first API, and the module and the class of its second (`experimental.v1`)."""
        for name in CLASSES:
            self._wrap(getattr(module, name, None), asked_each_step=name == ASKED_EACH_STEP)
        second = getattr(getattr(module, "experimental", None), "v1", None)
        self._wrap(second)
        checkpointer = getattr(getattr(second, "training", None), "Checkpointer", None)
        self._wrap(checkpointer, asked_each_step=True)

    def _wrap(self, owner: object, *, asked_each_step: bool = False) -> None:
        for name in SAVING:
            self.phase(owner, name, lambda: "checkpoint", tentative=asked_each_step)
        for name in WAITING:
            self.phase(owner, name, lambda: "checkpoint", tentative=True)
        for name in LOADING:
            self.phase(owner, name, lambda: "checkpoint" if self.steps else "initialisation")
