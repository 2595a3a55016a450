"""Computes a short, stable hash of a module's content.

Two compilations of one program have the same fingerprint, in any process and from any path: names, metadata and
identifiers are left out, and operands and called computations enter by their positions. Tuning results (tile sizes,
algorithms) differ between runs. They are in backend configurations, which therefore count only for custom calls, without
such keys, and not for callbacks, whose configuration names an object of the process; and in the size of a call's scratch
memory, which does not count.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from jaxobs.cost_model.custom_calls.protocol import workspaces
from jaxobs.cost_model.hlo.instructions import CONTROL, ELEMENTWISE, FREE, Instruction, Module
from jaxobs.proto.messages import InstructionMessage

_DIGITS: Final = 16
_TUNING: Final = re.compile(
    rb'"(?:selected_algorithm|autotune_workspace_size|plan_id)"\s*:\s*(?:"[^"]*"|\d+)'
    rb'|"algorithm"\s*:\s*(?:\d+|\{(?:[^{}]|\{[^{}]*\})*\})'
)
_CALLBACK: Final = re.compile(rb"callback", re.IGNORECASE)
_ELSEWHERE: Final = (
    "name", "opcode", "shape", "metadata", "id", "operand_ids", "called_computation_ids", "backend_config",
    "backend_config_payload",
)  # fmt: skip
_WITH_ATTRIBUTES: Final = frozenset(("compare", "constant", "get-tuple-element", "parameter"))
_WITHOUT_ATTRIBUTES: Final = (ELEMENTWISE | CONTROL | FREE | {"fusion"}) - _WITH_ATTRIBUTES
_WITH_DIMENSIONS: Final = frozenset(("broadcast", "concatenate", "iota", "reduce", "reverse", "transpose"))


def fingerprint(module: Module) -> str:
    """16 hexadecimal digits from the module's name, shapes, opcodes, operands, constants and attributes."""
    digest = hashlib.blake2b(module.message.name, digest_size=_DIGITS // 2)
    for computation in module.computations:
        digest.update(b"\n%d:" % computation.root.position)
        for instruction in computation.instructions:
            message = instruction.message
            places = [operand.position for operand in instruction.operands]
            # The shapes of the call's other results are those of the instructions that take them out of its tuple.
            has_scratch = instruction.opcode == "custom-call" and workspaces(instruction) > 0
            shape = b"" if has_scratch else message.shape
            parts = [b"", message.opcode, shape, repr(places).encode()]
            if instruction.called:
                parts.append(repr([called.index for called in instruction.called]).encode())
            if instruction.opcode not in _WITHOUT_ATTRIBUTES:
                parts.append(_attributes(instruction))
            digest.update(b" ".join(parts))
    digest.update(b"\n%d" % module.entry.index)
    return digest.hexdigest()


def _attributes(instruction: Instruction) -> bytes:
    opcode, message = instruction.opcode, instruction.message
    if opcode == "parameter":
        return b"%d" % message.parameter_number
    if opcode == "get-tuple-element":
        return b"%d" % message.tuple_index
    if opcode in _WITH_DIMENSIONS:
        return repr(list(message.dimensions)).encode()
    rest = InstructionMessage()
    rest.CopyFrom(message)
    for field in _ELSEWHERE:
        rest.ClearField(field)
    rest.DiscardUnknownFields()
    attributes: bytes = rest.SerializeToString(deterministic=True)
    if opcode == "custom-call" and not _CALLBACK.search(message.custom_call_target):
        attributes += _TUNING.sub(b"", instruction.backend_config)
    return attributes
