"""Finds the module of a CPU's operations whose program id comes from another process.

XLA's CPU compiler writes the program id into the compiled code. An executable that was read from JAX's persistent cache
therefore records operations with the id that it had in the process that compiled it (seen from 0.8.2 to 0.12.0.1), while
the trace lists its module under its id in this process, where the recorded id may belong to another module. The names
of the module and of its instructions are the same in both. Where they fit several modules, the operations are assigned
to none: which one ran must not be guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from jaxobs.trace.modules import ModuleIndex


class Recorded(NamedTuple):
    """A program by the id and module name that its operations carry."""

    program_id: int
    module: str


class ForeignPrograms:
    """Programs whose operations carry the id of another process; each has a negative id until its module is found."""

    def __init__(self, modules: ModuleIndex, notes: list[str]) -> None:
        self._modules = modules
        self._notes = notes
        self._placeholders: dict[Recorded, int] = {}

    def program_id(self, recorded: int | None, module: str | None) -> int | None:
        """The recorded id if its module has this name, or if either is unknown; otherwise a placeholder."""
        if recorded is None or module is None or self._modules.name(recorded) == module:
            return recorded
        return self._placeholders.setdefault(Recorded(recorded, module), -1 - len(self._placeholders))

    def ids(self, programs: Mapping[int | None, Set[str]]) -> dict[int, int]:
        """The program ids that replace placeholders; `programs` has the instructions that were seen of each program.

        A program whose module is not found keeps the recorded id, if no other program has it.
        """
        free = [identifier for identifier in self._modules.program_ids if identifier not in programs]
        fitting = {
            recorded: [one for one in free if self._modules.has(one, recorded.module, programs[placeholder])]
            for recorded, placeholder in self._placeholders.items()
            if placeholder in programs
        }
        found: dict[int, int] = {}
        for recorded, modules in fitting.items():
            rivals = [other for other in fitting if other != recorded and set(fitting[other]) & set(modules)]
            if len(modules) == 1 and not rivals:
                found[self._placeholders[recorded]] = modules[0]
                continue
            if modules:
                self._note(recorded.module)
            alone = [other.program_id for other in fitting].count(recorded.program_id) == 1
            if alone and recorded.program_id not in self._modules.program_ids:
                found[self._placeholders[recorded]] = recorded.program_id
        return found

    def _note(self, module: str) -> None:
        note = (
            f"{module} was read from a compilation cache, and several modules of that name have its instructions: "
            "what its operations cost is unknown"
        )
        if note not in self._notes:  # once, however many devices ran it
            self._notes.append(note)
