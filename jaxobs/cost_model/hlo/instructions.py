"""The decoded form of a module: computations of instructions linked to their operands, their shapes and opcodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any, Final

from google.protobuf.message import DecodeError

from jaxobs.proto.element_types import ELEMENT_TYPES, TUPLE, ElementType, Kind
from jaxobs.proto.messages import ShapeMessage


class HloDecodeError(ValueError):
    """The bytes cannot be read as an HLO module: truncated, corrupted, of another kind, or too large."""


HOST_MEMORY_SPACE: Final = 5
"""Memory space of host buffers in layouts: openxla/xla, ``xla/layout.h``, ``Layout::kHostMemorySpace``."""
_BUFFER: Final = 34  # a mutable buffer: its value's shape is the one tuple shape
_MAX_ELEMENTS: Final = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """An array (``parts`` empty) or a tuple of shapes; a token is an array without data."""

    type: ElementType
    dimensions: tuple[int, ...]
    elements: int
    element_bytes: float
    bytes: float
    """Bytes in device memory; those kept on the host or on the chip are not counted."""
    parts: tuple[Shape, ...]
    dynamic: bool

    @property
    def floating(self) -> bool:
        return self.type.kind is Kind.REAL or self.type.kind is Kind.COMPLEX

    @property
    def held(self) -> float:
        """Bytes wherever they are kept."""
        return sum(leaf.elements * leaf.element_bytes for leaf in self.leaves())

    def leaves(self) -> tuple[Shape, ...]:
        """The arrays of this shape, in order."""
        if not self.parts:
            return (self,)
        return tuple(leaf for part in self.parts for leaf in part.leaves())


def _in_device_memory(layout: Any) -> bool:
    # TPU layouts are tiled, and there other memory spaces than 0 are on the chip. GPUs use space 1 for
    # collective buffers, which is device memory like any other.
    if layout.memory_space == HOST_MEMORY_SPACE:
        return False
    return not (layout.memory_space and layout.tiles)


def _read(message: Any) -> Shape:
    number = message.element_type
    if number in (TUPLE, _BUFFER):
        parts = tuple(_read(part) for part in message.tuple_shapes)
        elements, in_memory = sum(part.elements for part in parts), sum(part.bytes for part in parts)
        dynamic = any(part.dynamic for part in parts)
        return Shape(ELEMENT_TYPES[TUPLE], (), elements, 0.0, in_memory, parts, dynamic)
    type_ = ELEMENT_TYPES.get(number)
    if type_ is None:
        raise HloDecodeError(f"shape with element type {number}, which is none that XLA defines")
    dimensions = tuple(message.dimensions)
    if dimensions and min(dimensions) < 0:
        raise HloDecodeError(f"shape with a negative dimension: {list(dimensions)}")
    elements = prod(dimensions) if type_.kind is not Kind.NO_DATA else 0
    if elements > _MAX_ELEMENTS:
        raise HloDecodeError(f"shape with more than 2**62 elements: {list(dimensions)}")
    # Types under a byte are packed only where the layout says so.
    element_bytes = (message.layout.element_size_in_bits or -(-type_.bits // 8) * 8) / 8
    if not 0 <= element_bytes <= 64:
        raise HloDecodeError(f"shape with elements of {element_bytes} bytes")
    in_memory = elements * element_bytes if _in_device_memory(message.layout) else 0.0
    dynamic = any(message.is_dynamic_dimension)
    return Shape(type_, dimensions, elements, element_bytes, in_memory, (), dynamic)


def read_shape(serialized: bytes) -> Shape:
    """The shape with this serialized form; raises ``HloDecodeError``."""
    try:
        return _read(ShapeMessage.FromString(serialized))
    except DecodeError as error:
        raise HloDecodeError(f"a shape cannot be read: {error}") from None


# Classes of opcodes, and the FLOPs per element of the result for those whose attributes do not matter.
#
# Conventions. An addition, subtraction, multiplication, division, remainder or square root of real numbers is 1 FLOP:
# processors have an instruction for each. On two cores XLA's roots took 0.37 of the time of its exponentials, by which
# `jaxobs calibrate` measures transcendentals.
# Complex ones follow from their parts: 2 for an addition, 6 for a product (4 multiplications, 2 additions),
# 11 for a quotient (a product with the conjugate, the squared magnitude 3, two divisions), 9 for a root (the magnitude
# 4, a sum, its half and root, the other part over twice that). A maximum, a clamp
# or a rounding selects or converts, a negation or magnitude changes a sign bit: no FLOP, as integer, compare,
# select and convert work is none. An elementary function is one transcendental evaluation, of a complex
# number two.


ARITHMETIC: Final[dict[str, tuple[int, int]]] = {
    "add": (1, 2),
    "subtract": (1, 2),
    "multiply": (1, 6),
    "divide": (1, 11),
    "remainder": (1, 1),
    **dict.fromkeys(("sqrt", "rsqrt"), (1, 9)),
}
"""By opcode, the FLOPs for each real element and for each complex element."""

TRANSCENDENTAL: Final = frozenset([
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cosh", "cosine", "erf", "exponential",
    "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "sine", "sinh", "tan", "tanh",
])  # fmt: skip

FREE: Final = frozenset([
    "add-dependency", "after-all", "bitcast", "constant", "domain", "get-tuple-element", "opt-barrier", "parameter",
    "partition-id", "replica-id", "tuple", "get-dimension-size", "all-gather-done", "all-reduce-done", "async-done",
    "async-update", "collective-permute-done", "copy-done", "recv-done", "send-done",
])  # fmt: skip
"""Opcodes that run nothing themselves; the done half of an asynchronous pair was counted at its start."""

_MOVED_IN_PLACE: Final = frozenset(["bitcast-convert", "copy", "select"])
MOVEMENT: Final = _MOVED_IN_PLACE | frozenset([
    "broadcast", "concatenate", "copy-start", "dynamic-reshape", "dynamic-slice", "dynamic-update-slice", "gather",
    "iota", "pad", "reshape", "reverse", "set-dimension-size", "slice", "transpose",
])  # fmt: skip
"""Opcodes that only move data."""

_COMPARED_AND_ROUNDED: Final = frozenset([
    "and", "ceil", "clamp", "compare", "complex", "convert", "count-leading-zeros", "floor", "imag",
    "is-finite", "maximum", "minimum", "mulhi", "negate", "not", "or", "popcnt", "real", "reduce-precision",
    "round-nearest-afz", "round-nearest-even", "shift-left", "shift-right-arithmetic", "shift-right-logical",
    "sign", "stochastic-convert", "xor",
])  # fmt: skip
NO_FLOPS: Final = _COMPARED_AND_ROUNDED | {"rng", "rng-bit-generator", "rng-get-and-update-state", "topk"}
"""Opcodes whose work is no floating arithmetic; random bits are made by integers."""

COMMUNICATION: Final = frozenset([
    "all-gather", "all-gather-start", "all-to-all", "collective-broadcast", "collective-permute",
    "collective-permute-start", "ragged-all-to-all", "recv", "send",
])  # fmt: skip
"""Opcodes that send data between devices and combine nothing."""

CONTROL: Final = frozenset(["call", "conditional", "while", "async-start"])
"""Opcodes that run whole computations of schedulable instructions."""

ELEMENTWISE: Final = (
    TRANSCENDENTAL | frozenset(ARITHMETIC) | _COMPARED_AND_ROUNDED | _MOVED_IN_PLACE | {"abs", "map"}
)
"""Opcodes of which each result element needs the element at the same position of every operand."""


_TRIP_COUNT: Final = re.compile(rb'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d{1,18})"?')
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
    def trip_count(self) -> int | None:
        """The number of times that a ``while`` runs its body, noted by the compiler or inferred; None if not known."""
        found = _TRIP_COUNT.search(self.backend_config)
        return int(found.group(1)) if found else self.computation.module.inferred_trips.get(self)


class Computation:
    """A list of instructions, operands before their users."""

    __slots__ = ("callers", "index", "instructions", "message", "module", "parameters", "root")

    def __init__(self, message: Any, index: int, module: Module) -> None:
        self.message = message
        self.index = index
        self.module = module
        self.instructions: list[Instruction] = []
        self.parameters: dict[int, Instruction] = {}
        """By number."""
        self.root: Instruction
        self.callers: list[Instruction] = []

    @property
    def name(self) -> str:
        return str(self.message.name, "utf-8", "replace")


def instructions_of(computations: Iterable[Computation]) -> Iterator[Instruction]:
    """All instructions of these computations."""
    return chain.from_iterable(each.instructions for each in computations)


def backwards(root: Instruction) -> Iterator[Instruction]:
    """An instruction and those that it needs, the nearest first."""
    found, known = [root], {root}
    for instruction in found:  # which grows
        yield instruction
        new = [operand for operand in instruction.operands if operand not in known]
        known.update(new)
        found += new


class Module:
    """A decoded module; ``computations`` are in no particular order.

    Its parts refer to each other: without ``release`` they would stay until the garbage collector's next pass.
    """

    __slots__ = ("computations", "entry", "first_work", "inferred_trips", "message")

    def __init__(self, message: Any) -> None:
        self.message = message
        self.computations: list[Computation] = []
        self.entry: Computation
        self.first_work: set[Instruction] = set()
        """Products that are named as rematerialised but repeat nothing."""
        self.inferred_trips: dict[Instruction, int] = {}
        """Turns of loops for which the compiler has noted none, and which are known all the same."""

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
        for computation in self.computations:
            del computation.module
            for instruction in computation.instructions:
                del instruction.computation, instruction.called
