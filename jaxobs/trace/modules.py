"""The modules in a trace's metadata plane, and the opcodes of their instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError

from jaxobs.model.trace import Kind
from jaxobs.proto.hlo import HloMessage, OutlineMessage
from jaxobs.trace.operation_kinds import kind_of_opcode
from jaxobs.trace.planes.metadata import PlaneMetadata, Value

_PROGRAM_IN_NAME: Final = re.compile(r"\((\d+)\)\Z")
_PRODUCTS: Final = frozenset(["dot", "convolution", "custom-call", "ragged-dot"])
_RUN_NOTHING: Final = frozenset([b"bitcast", b"get-tuple-element", b"tuple"])
_ALWAYS_RECORDED: Final = frozenset(
    ["call", "conditional", "convolution", "custom-call", "dot", "fusion", "reduce", "sort", "while"]
)
"""Opcodes whose instructions XLA's CPU runtime always records. Others may be part of one of these, or run nothing."""
_PROTO_STATS: Final = frozenset(["Hlo Proto", "hlo_proto"])


@dataclass(frozen=True, slots=True)
class Instruction:
    """The instruction of a module that a trace's operation executes."""

    opcode: str
    kind: Kind
    in_entry: bool
    """Whether it belongs to the entry computation, so that one run of the module executes it once."""
    users: Set[str]
    """Instructions that use its result, directly or through others that run nothing, so that they begin after it."""


def read_modules(plane: PlaneMetadata, notes: list[str]) -> dict[int, bytes]:
    """The serialized HloModuleProto of each program id; one that cannot be read is left out with a note."""
    found: dict[int, bytes] = {}
    for key, event in plane.events.items():
        stats = plane.stats_of(event.stats)
        proto = next((value for name, value in stats.items() if name in _PROTO_STATS), None)
        if not isinstance(proto, bytes):
            continue
        written = _PROGRAM_IN_NAME.search(event.name)
        program = stats.get("program_id")
        if not isinstance(program, int):
            program = int(written[1]) if written else key
        try:
            module = HloMessage.FromString(proto).module
        except DecodeError:
            module = b""
        if module:
            found[unsigned(program)] = module
        else:
            notes.append(f"the HLO of {event.name} in the trace cannot be read: its costs are unknown")
    return found


def unsigned(program_id: int) -> int:
    """A program id as an unsigned number: those of TPUs are 64-bit hashes, written signed in some places."""
    return program_id & (2**64 - 1)


def program_of(stats: Mapping[str, Value]) -> int | None:
    """The program id in the statistics of an event; None where it is not among them."""
    program = stats.get("program_id")
    return unsigned(program) if isinstance(program, int) else None


def text_of(stats: Mapping[str, Value], name: str) -> str | None:
    """A text among the statistics of an event; None where it is not there, or no text."""
    value = stats.get(name)
    return value if isinstance(value, str) else None


class ModuleIndex:
    """Instructions by program id and name; each module is decoded when first asked for."""

    def __init__(self, modules: dict[int, bytes], notes: list[str]) -> None:
        self._serialized = modules
        self._notes = notes
        self._decoded: dict[int, tuple[str, dict[str, Instruction]]] = {}

    def name(self, program_id: int | None) -> str | None:
        return None if program_id is None else self._read(program_id)[0] or None

    @property
    def program_ids(self) -> list[int]:
        """The program ids of all modules of the trace."""
        return list(self._serialized)

    def has(self, program_id: int, name: str, instructions: Set[str]) -> bool:
        """Whether a program's module has this name and all of these instructions."""
        own, known = self._read(program_id)
        return own == name and instructions <= known.keys()

    def instruction(self, program_id: int | None, name: str) -> Instruction | None:
        """An instruction by name; None where the module is not in the trace, or has none of this name."""
        return None if program_id is None else self._read(program_id)[1].get(name)

    def entry(self, program_id: int | None) -> frozenset[str] | None:
        """Instructions of the entry computation that each run is seen to execute; None if the module is unknown."""
        known = None if program_id is None else self._read(program_id)[1]
        if not known:
            return None
        return frozenset(
            name for name, one in known.items() if one.in_entry and one.opcode in _ALWAYS_RECORDED
        )

    def _read(self, program_id: int) -> tuple[str, dict[str, Instruction]]:
        known = self._decoded.get(program_id)
        if known is None:
            serialized = self._serialized.get(program_id)
            try:
                known = _instructions(serialized) if serialized else ("", {})
            except DecodeError:
                self._notes.append(f"the HLO of program {program_id} is corrupted: its costs are unknown")
                known = ("", {})
            self._decoded[program_id] = known
        return known


def _instructions(serialized: bytes) -> tuple[str, dict[str, Instruction]]:
    message = OutlineMessage.FromString(serialized)
    computations = {computation.id: computation for computation in message.computations}
    found: dict[str, Instruction] = {}
    communicating = {
        identifier for identifier, computation in computations.items() if _communicates(computation)
    }
    for computation in message.computations:
        in_entry = computation.id == message.entry_computation_id
        users = _users(computation)
        for instruction in computation.instructions:
            opcode = str(instruction.opcode, "utf-8", "replace")
            if opcode.startswith("async-"):  # such a pair wraps one instruction and takes its opcode
                opcode = _wrapped(instruction, computations) + opcode.removeprefix("async")
            kind = kind_of_opcode(opcode, host_transfer=instruction.is_host_transfer)
            if opcode == "fusion" and not communicating.isdisjoint(instruction.called_computation_ids):
                kind = "collective"
            name = str(instruction.name, "utf-8", "replace")
            found[name] = Instruction(opcode, kind, in_entry, users.get(instruction.id, set()))
    return str(message.name, "utf-8", "replace"), found


def _communicates(computation: Any) -> bool:
    """Whether a fused computation is a collective and what is done to its data, and does no product beside it."""
    opcodes = {str(instruction.opcode, "utf-8", "replace") for instruction in computation.instructions}
    return any(kind_of_opcode(opcode) == "collective" for opcode in opcodes) and opcodes.isdisjoint(_PRODUCTS)


def _users(computation: Any) -> dict[int, set[str]]:
    """The users of each instruction's id. Users follow their operands, so one walk from the end finds them all."""
    found: dict[int, set[str]] = {}
    for instruction in reversed(computation.instructions):
        passed_on = {str(instruction.name, "utf-8", "replace")}
        if instruction.opcode in _RUN_NOTHING:
            passed_on |= found.get(instruction.id, set())
        for operand in instruction.operand_ids:
            found.setdefault(operand, set()).update(passed_on)
    return found


def _wrapped(instruction: Any, computations: dict[int, Any]) -> str:
    for identifier in instruction.called_computation_ids:
        body = computations.get(identifier)
        if body is None:
            continue
        for inner in body.instructions:
            if inner.id == body.root_id:
                return str(inner.opcode, "utf-8", "replace")
    return "async"
