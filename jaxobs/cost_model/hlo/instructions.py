"""The decoded form of a module: computations of instructions that are linked to their operands."""

from __future__ import annotations

import re
from typing import Any, Final

from jaxobs.cost_model.errors import HloDecodeError
from jaxobs.cost_model.hlo.shapes import Shape

_TRIP_COUNT: Final = re.compile(rb'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d{1,18})"?')
_PRODUCT: Final = b"/dot_general"
_REMATERIALIZED: Final = b"rematted_computation"

HOST_THREAD: Final = b"host"
"""Execution thread of computations that the host runs: openxla/xla, ``HloInstruction::kHostThread``."""


class Instruction:
    """One HLO instruction. ``message`` is its proto, for the attributes that few opcodes have."""

    __slots__ = ("called", "computation", "message", "opcode", "operands", "position", "shape")

    def __init__(
        self, message: Any, opcode: str, shape: Shape, position: int, computation: Computation
    ) -> None:
        self.message = message
        self.opcode = opcode
        self.shape = shape
        self.position = position
        """The index in its computation; operands have smaller ones."""
        self.computation = computation
        self.operands: tuple[Instruction, ...] = ()
        self.called: tuple[Computation, ...] = ()
        """The computations that it runs on the device."""

    def operand(self, index: int) -> Instruction:
        """An operand; raises ``HloDecodeError`` where it is missing."""
        if not -len(self.operands) <= index < len(self.operands):
            raise HloDecodeError(f"{self.opcode} {self.name!r} lacks operand {index}")
        return self.operands[index]

    @property
    def name(self) -> str:
        """The name under which profilers report it."""
        return str(self.message.name, "utf-8", "replace")

    @property
    def target(self) -> str:
        """A custom call's target."""
        return str(self.message.custom_call_target, "utf-8", "replace")

    @property
    def backend_config(self) -> bytes:
        """The backend's configuration: JSON, MLIR attributes or nothing."""
        message: bytes = self.message.backend_config or self.computation.module.payload(self.message)
        return message

    @property
    def runs_on_host(self) -> bool:
        """Whether the host runs all computations that it calls."""
        return not self.called and bool(self.message.called_computation_ids)

    @property
    def named_rematerialized(self) -> bool:
        """Whether ``jax.checkpoint`` made this to repeat earlier work: the operation name says so."""
        return _REMATERIALIZED in self.message.metadata

    @property
    def rematerialized(self) -> bool:
        """Whether it is named as rematerialised, and its work is done elsewhere in the module too."""
        return self.named_rematerialized and self not in self.computation.module.first_work

    @property
    def was_product(self) -> bool:
        """Whether the program wrote a dot product here that the compiler turned into other opcodes."""
        return _PRODUCT in self.message.metadata

    @property
    def trip_count(self) -> int | None:
        """The number of times that a ``while`` runs its body; None where the compiler does not know."""
        found = _TRIP_COUNT.search(self.backend_config)
        return int(found.group(1)) if found else None


class Computation:
    """A list of instructions, operands before their users."""

    __slots__ = ("callers", "index", "instructions", "message", "module", "root")

    def __init__(self, message: Any, index: int, module: Module) -> None:
        self.message = message
        self.index = index
        self.module = module
        self.instructions: list[Instruction] = []
        self.root: Instruction
        self.callers: list[Instruction] = []

    @property
    def name(self) -> str:
        return str(self.message.name, "utf-8", "replace")


class Module:
    """A decoded module; ``computations`` are in no particular order.

    Its parts refer to each other: without ``release`` they would stay until the garbage collector's next pass.
    """

    __slots__ = ("computations", "entry", "first_work", "message")

    def __init__(self, message: Any) -> None:
        self.message = message
        self.computations: list[Computation] = []
        self.entry: Computation
        self.first_work: set[Instruction] = set()
        """Products that are named as rematerialised but repeat nothing."""

    @property
    def name(self) -> str:
        return str(self.message.name, "utf-8", "replace")

    def payload(self, instruction_message: Any) -> bytes:
        """A backend configuration kept outside the instruction: in its payload, or in the module's list."""
        if not instruction_message.HasField("backend_config_payload"):
            return b""
        payload = instruction_message.backend_config_payload
        if payload.value:
            return bytes(payload.value)
        known = self.message.payloads
        return bytes(known[payload.id]) if 0 <= payload.id < len(known) else b""

    def release(self) -> None:
        """Cut the reference cycles, so that memory is freed at once; afterwards the module cannot be used."""
        self.first_work.clear()
        for computation in self.computations:
            computation.callers.clear()
            del computation.module
            for instruction in computation.instructions:
                del instruction.computation, instruction.operands, instruction.called
            computation.instructions.clear()
        self.computations.clear()
