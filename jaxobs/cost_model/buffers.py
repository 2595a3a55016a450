"""What a run holds of a device's memory: XLA's buffer assignment, with the operation and line that made each buffer.

The assignment is a ``BufferAssignmentProto`` (openxla/xla, ``xla/service/hlo.proto``), which JAX hands out beside the
memory analysis. It tells which buffers live at the peak: newer compilers list them, older ones wrote the trace of the
simulated heap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from jaxobs.cost_model.hlo.instructions import HOST_MEMORY_SPACE, HloDecodeError, Instruction, Module, Shape
from jaxobs.cost_model.hlo.scopes import Origin, Provenance
from jaxobs.model.peak_memory import ARGUMENT, KEPT, OUTPUT, TEMPORARY, Buffer, PeakMemory, places_of
from jaxobs.proto.messages import BufferAssignmentMessage

NOT_TOLD: Final = "the compiler does not tell which temporaries live at the peak"

_ALLOC, _FREE = 0, 1  # kinds of heap events; the third is a share
_PASSES_ON: Final = frozenset((
    "while", "tuple", "parameter", "get-tuple-element", "conditional", "call", "opt-barrier", "async-start",
))  # fmt: skip
"""Opcodes whose value something else has made."""
_MOVES: Final = frozenset(("bitcast", "copy", "reshape", "transpose", "copy-start", "copy-done"))
_MAX_STEPS: Final = 100
"""Most instructions followed back to what made a value: fusions nest a few deep."""


class Assigned(NamedTuple):
    """A buffer with the loop that fills it, None if none does."""

    buffer: Buffer
    loop: Instruction | None


class Assignment:
    """A decoded buffer assignment of a decoded module."""

    def __init__(self, module: Module, provenance: Provenance, serialized: bytes) -> None:
        try:
            message = BufferAssignmentMessage.FromString(serialized)
        except DecodeError as error:
            raise HloDecodeError(f"{len(serialized)} bytes are no BufferAssignmentProto ({error})") from None
        self._provenance = provenance
        self._instructions = {
            instruction.message.id: instruction
            for computation in module.computations
            for instruction in computation.instructions
        }
        self._entry = module.entry
        self._outputs = {_moved(each).message.id for each in (module.entry.root, *module.entry.root.operands)}
        self._values = {value.id: value for value in message.logical_buffers}
        self._aliases: defaultdict[int, list[Any]] = defaultdict(list)
        for alias in message.aliases:
            self._aliases[alias.source_buffer_id].append(alias.location)
        self._allocations: defaultdict[str, list[Any]] = defaultdict(list)
        for allocation in message.allocations:
            # A buffer's color is its memory space; what is thread-local is on the stack of a computation.
            if not allocation.is_thread_local and allocation.color != HOST_MEMORY_SPACE:
                self._allocations[_kind(allocation)].append(allocation)
        self._peaks = {peak.allocation_index: list(peak.buffer_ids) for peak in message.peaks}
        if not self._peaks:
            sizes = {number: value.size for number, value in self._values.items()}
            for trace in message.heap_traces:
                found = self._peaks.setdefault(trace.allocation_index, [])
                found += _live_at_peak(trace.events, sizes)

    def memory(self) -> tuple[PeakMemory, list[Assigned]]:
        """The memory of a run without savings, and every buffer at the peak, the largest first."""
        of_kind = self._allocations
        sums = {kind: sum(each.size for each in of_kind[kind]) for kind in (ARGUMENT, OUTPUT, TEMPORARY)}
        # An output that takes over an argument is counted as both, as XLA does.
        alias = sum(each.size for each in of_kind[ARGUMENT] if each.maybe_live_out)
        sums |= {OUTPUT: sums[OUTPUT] + alias, "alias": alias}
        found = [*self._whole(ARGUMENT), *self._whole(OUTPUT)]
        known = all(each.index in self._peaks for each in of_kind[TEMPORARY])
        live = list(self._at_the_peak()) if known else []
        found = sorted([*found, *live], key=lambda each: -each.buffer.bytes)
        buffers = [each.buffer for each in found]
        constants = sum(each.size for each in of_kind["constant"])
        in_use = sum(each.buffer.bytes for each in live) if known else None
        memory = PeakMemory(
            sums, constants, in_use, "" if known else NOT_TOLD, tuple(buffers[:KEPT]), len(buffers[KEPT:]),
            places_of(buffers),
        )  # fmt: skip
        return memory, found

    def _whole(self, kind: str) -> Iterator[Assigned]:
        """Allocations that hold one array throughout; the tables of pointers of tuples are left out."""
        for allocation in self._allocations[kind]:
            values = [each.buffer_id for each in allocation.assigned if each.size == allocation.size]
            if kind == OUTPUT:  # temporaries may have had its place before
                values.sort(key=lambda value: self._values[value].defined_at.instruction_id in self._outputs)
            named = (
                self._named(values[-1 if kind == OUTPUT else 0], allocation.size, kind) if values else None
            )
            if named is not None:
                yield named

    def _at_the_peak(self) -> Iterator[Assigned]:
        """Temporaries that live at the peak; of several in one place, which share it, the largest."""
        for allocation in self._allocations[TEMPORARY]:
            places = {each.buffer_id: (each.offset, each.size) for each in allocation.assigned}
            live = sorted((number for number in self._peaks[allocation.index] if number in places),
                          key=lambda number: (-places[number][1], number))  # fmt: skip
            taken: list[tuple[int, int]] = []
            for number in live:
                begin, size = places[number]
                if any(begin < other_end and other < begin + size for other, other_end in taken):
                    continue
                taken.append((begin, begin + size))
                if (named := self._named(number, size, TEMPORARY)) is not None:
                    yield named

    def _named(self, number: int, size: int, kind: str) -> Assigned | None:
        """The buffer of a value, and of those that take its place in turn."""
        own, shape = self._at(self._values[number].defined_at)
        if own is None or shape is None:
            return Assigned(Buffer(size, kind, "", (), "", "", "", "", ""), None)
        if shape.parts:
            return None if kind != TEMPORARY else Assigned(
                Buffer(size, kind, "tuple", (), own.opcode, "", "", "", ""), None
            )  # fmt: skip
        dtype, dimensions = shape.type.name, shape.dimensions
        if kind == ARGUMENT:
            name = self._provenance.of(own).operation_name or own.name
            return Assigned(Buffer(size, kind, dtype, dimensions, name, "", "", "", ""), None)
        others = (self._at(location)[0] for location in self._aliases[number])
        candidates = [own, *(each for each in others if each is not None and each.opcode not in _PASSES_ON)]
        index = tuple(self._values[number].defined_at.shape_index)
        made = [maker_of(each, index if each is own else ()) for each in candidates]
        ranked = zip(candidates, made, strict=True)
        best, (maker, piecewise) = max(ranked, key=lambda each: self._rank(each[0], *each[1]))
        origin, name = self._origin(best, maker)
        loop = _loop_of(best, dimensions) if piecewise else None
        function = origin.stack[-1].function if origin.stack else ""
        turns = dimensions[0] if loop is not None else 1
        return Assigned(
            Buffer(size, kind, dtype, dimensions, name, origin.scope, origin.source, function, origin.autodiff, turns),
            loop,
        )  # fmt: skip

    def _rank(self, instruction: Instruction, maker: Instruction, piecewise: bool) -> tuple[bool, bool]:
        known = bool(self._origin(instruction, maker)[0].source)
        return piecewise and known, known

    def _origin(self, instruction: Instruction, maker: Instruction) -> tuple[Origin, str]:
        """Where a value comes from, and the name of the operation that made it."""
        origin = self._provenance.of(maker)
        if maker.opcode == "parameter" and maker.computation is self._entry:
            name = origin.operation_name or maker.name
            return self._provenance.of(instruction), f"copy of {name}"
        if not origin.source:
            own = self._provenance.of(instruction)
            origin = own if own.source else origin
        return origin, origin.operation_name.rpartition("/")[2] or maker.opcode

    def _at(self, location: Any) -> tuple[Instruction | None, Shape | None]:
        """The instruction at a location, and the shape of its part there; None for what the module does not have."""
        instruction = self._instructions.get(location.instruction_id)
        shape = None if instruction is None else instruction.shape
        for index in location.shape_index:
            if shape is None or not 0 <= index < len(shape.parts):
                return instruction, None
            shape = shape.parts[index]
        return instruction, shape


def _kind(allocation: Any) -> str:
    """As XLA's ``CompiledMemoryStats::PopulateBufferStatsFromAllocations`` counts it."""
    if allocation.is_parameter:
        return ARGUMENT
    if allocation.maybe_live_out:
        return OUTPUT
    return "constant" if allocation.is_constant else TEMPORARY


def _live_at_peak(events: Iterable[Any], sizes: Mapping[int, int]) -> list[int]:
    """The buffers that live when most bytes do, by the trace of XLA's heap simulator. Those that share one count once."""
    events = list(events)
    most, at = 0, 0
    for number, (_, in_use) in enumerate(_replayed(events, sizes), 1):
        if in_use > most:
            most, at = in_use, number
    live: list[int] = []
    for now, _ in _replayed(events[:at], sizes):
        live = list(now)
    return live


def _replayed(events: Sequence[Any], sizes: Mapping[int, int]) -> Iterator[tuple[Mapping[int, int], int]]:
    """After each event the live buffers, with the one whose memory each has, and the bytes in use."""
    live: dict[int, int] = {}
    users: Counter[int] = Counter()
    in_use = 0
    for event in events:
        if event.kind == _FREE:
            owner = live.pop(event.buffer_id, None)
            if owner is not None:
                users[owner] -= 1
                in_use -= 0 if users[owner] else sizes.get(owner, 0)
        else:
            owner = event.buffer_id if event.kind == _ALLOC else event.share_with_canonical_id
            in_use += 0 if users[owner] else sizes.get(owner, 0)
            live[event.buffer_id] = owner
            users[owner] += 1
        yield live, in_use


def _moved(instruction: Instruction) -> Instruction:
    """What an instruction that only renames or moves a value takes it from."""
    for _ in range(_MAX_STEPS):
        if instruction.opcode not in _MOVES or not instruction.operands:
            break
        instruction = instruction.operands[0]
    return instruction


def maker_of(instruction: Instruction, index: Sequence[int]) -> tuple[Instruction, bool]:
    """The instruction that made a value, and whether the value is written piece by piece into a larger one."""
    piecewise, within = False, []
    for _ in range(_MAX_STEPS):
        before = instruction
        if instruction.opcode == "fusion" and instruction.called:
            within.append(instruction)
            root = instruction.called[0].root
            inside = root.opcode == "tuple" and len(index) == 1 and index[0] < len(root.operands)
            instruction = root.operands[index[0]] if inside else root
        elif instruction.opcode == "parameter" and within:
            number = instruction.message.parameter_number
            fusion = within.pop()
            instruction = fusion.operands[number] if number < len(fusion.operands) else fusion
        elif instruction.opcode == "dynamic-update-slice" and len(instruction.operands) > 1:
            piecewise, instruction = True, instruction.operands[1]
        elif instruction.opcode in _MOVES and instruction.operands:
            instruction = instruction.operands[0]
        index = ()
        if instruction is before:
            break
    return instruction, piecewise


def _loop_of(instruction: Instruction, dimensions: Sequence[int]) -> Instruction | None:
    """The loop with a turn for each part of a buffer of these dimensions, which the instruction fills; else None."""
    computation = instruction.computation
    for _ in range(_MAX_STEPS):
        callers = computation.callers
        if not callers:
            return None
        caller = callers[0]
        if caller.opcode == "while":
            return caller if dimensions and caller.trip_count == dimensions[0] > 1 else None
        computation = caller.computation
    return None
