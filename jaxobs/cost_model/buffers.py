"""What a run holds of a device's memory: XLA's buffer assignment, with the operation and line that made each buffer.

The assignment is a ``BufferAssignmentProto`` (openxla/xla, ``xla/service/hlo.proto``), which JAX hands out beside the
memory analysis. It tells each buffer's place in an allocation, but not when it lives: the list of buffers at the peak
that newer compilers write misses those that a loop has filled, and not all write the trace of the heap. So that is read
from the schedule; no two buffers that live at once may then have the same place.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

from jaxobs.cost_model.dataflow import MOVES, LiveRanges, Position, defined_at, maker_of, may_overwrite
from jaxobs.cost_model.hlo.instructions import (
    HOST_MEMORY_SPACE,
    HloDecodeError,
    Instruction,
    Module,
    Shape,
    instructions_of,
)
from jaxobs.cost_model.hlo.scopes import Origin, Provenance
from jaxobs.model.peak_memory import ARGUMENT, KEPT, OUTPUT, TEMPORARY, Buffer, PeakMemory, places_of
from jaxobs.proto.messages import BufferAssignmentMessage
from jaxobs.vocabulary.text import cut_name

_PASSES_ON: Final = frozenset((
    "while", "tuple", "parameter", "get-tuple-element", "conditional", "call", "opt-barrier", "async-start",
))  # fmt: skip
"""Opcodes whose value something else has made."""


class Tenant(NamedTuple):
    """What lives in a place of an allocation for some time, both ends inclusive; `value` is one of its values.

    It may live there several times.
    """

    allocation: int
    offset: int
    size: int
    begin: int
    end: int
    value: int

    def overlaps(self, other: Tenant) -> bool:
        """Whether they have some bytes in common."""
        apart = self.offset + self.size <= other.offset or other.offset + other.size <= self.offset
        return self.allocation == other.allocation and not apart


class Assigned(NamedTuple):
    """A buffer with the loop that fills it, None if none does, and its place among temporaries if it is one."""

    buffer: Buffer
    loop: Instruction | None = None
    tenant: Tenant | None = None


class Assignment:
    """A decoded buffer assignment of a decoded module."""

    def __init__(self, module: Module, provenance: Provenance, serialized: bytes) -> None:
        """Raises DecodeError where ``serialized`` is no ``BufferAssignmentProto``."""
        message = BufferAssignmentMessage.FromString(serialized)
        self._provenance = provenance
        self._instructions = {each.message.id: each for each in instructions_of(module.computations)}
        entry = module.entry
        ends = (entry.root, *entry.root.operands)
        ends += tuple(before for each in ends if each.opcode in MOVES for before in each.operands[:1])
        self._namesakes = {
            ARGUMENT: {each.message.id for each in entry.parameters.values()},
            OUTPUT: {each.message.id for each in ends},
        }
        self._places = {value.id: [value.defined_at] for value in message.values}
        """Where each value is made, and then where those are that share its place in turn."""
        for alias in message.aliases:
            self._places.setdefault(alias.source_buffer_id, []).append(alias.location)
        self._allocations: defaultdict[str, list[Any]] = defaultdict(list)
        for allocation in message.allocations:
            # A buffer's color is its memory space; what is thread-local is on the stack of a computation.
            if not allocation.is_thread_local and allocation.color != HOST_MEMORY_SPACE:
                self._allocations[_kind(allocation)].append(allocation)
        self._module = module
        self._tenants: list[Tenant] = []

    def memory(self) -> tuple[PeakMemory, list[Assigned]]:
        """The memory of a run without savings, and every buffer at the peak, the largest first."""
        of_kind = self._allocations
        sums = {kind: sum(each.size for each in of_kind[kind]) for kind in (ARGUMENT, OUTPUT, TEMPORARY)}
        # An output that takes over an argument is counted as both, as XLA does.
        alias = sum(each.size for each in of_kind[ARGUMENT] if each.maybe_live_out)
        sums |= {OUTPUT: sums[OUTPUT] + alias, "alias": alias}
        found = [*self._whole(ARGUMENT), *self._whole(OUTPUT)]
        try:
            in_use, live, reason = *self._at_the_peak(), ""
        except HloDecodeError as error:
            in_use, live, reason = None, [], f"which temporaries live at the peak is not known: {error}"
        found = sorted([*found, *live], key=lambda each: -each.buffer.bytes)
        buffers = [each.buffer for each in found]
        memory = PeakMemory(sums, in_use, reason, tuple(buffers[:KEPT]), places_of(buffers))
        return memory, found

    def _whole(self, kind: str) -> Iterator[Assigned]:
        """Allocations that hold one array throughout; the tables of pointers of tuples are left out."""
        for allocation in self._allocations[kind]:
            values = [each.buffer_id for each in allocation.assigned if each.size == allocation.size]
            # Temporaries may have its place before an output, and an output after a donated argument.
            values.sort(key=lambda value: self._places[value][0].instruction_id in self._namesakes[kind])
            if values and (named := self._named(values[-1], allocation.size, kind)):
                yield named

    def _at_the_peak(self) -> tuple[int, list[Assigned]]:
        """Bytes of temporaries that live when most do, and the arrays among them. Raises HloDecodeError if not known."""
        self._ranges = LiveRanges(self._module)
        self._tenants = [each for one in self._allocations[TEMPORARY] for each in self._tenants_of(one)]
        living = _most_at_once(self._tenants)
        named = ((self._named(tenant.value, tenant.size, TEMPORARY), tenant) for tenant in living)
        arrays = [each._replace(tenant=tenant) for each, tenant in named if each is not None]
        return sum(tenant.size for tenant in living), arrays

    def _tenants_of(self, allocation: Any) -> list[Tenant]:
        """What lives in an allocation, and when."""
        found: dict[Position, list[Tenant]] = {}
        for each in allocation.assigned:
            made = self._made(each.buffer_id)
            if made and made[0] not in found:
                at = allocation.index, each.offset, each.size
                found[made[0]] = [Tenant(*at, *lives, each.buffer_id) for lives in self._ranges.of(made)]
        return [tenant for lives in found.values() for tenant in lives]

    def _made(self, number: int) -> list[Position]:
        """The positions of a value and of those that share its place in turn, in the same order for each of these."""
        made = ((self._at(place)[0], tuple(place.shape_index)) for place in self._places[number])
        known = [(instruction, index) for instruction, index in made if instruction is not None]
        return sorted(known, key=lambda position: (position[0].message.id, position[1]))

    def live_without(self, gone: Iterable[Assigned]) -> int | None:
        """Bytes of temporaries at the peak that there would be without these; None if their live ranges were misread."""
        values = {each.tenant.value for each in gone if each.tenant}
        return _size([one for one in self._tenants if one.value not in values])

    def is_result(self, stacked: Assigned) -> bool:
        """Whether what a loop has stacked is used by more than other loops, as what `scan` returns is."""
        made = self._made(stacked.tenant.value) if stacked.tenant else []
        return any(self._ranges.used_but_in_loops(each) for each in made if each[0] is stacked.loop)

    def freed_by_donation(self, most: int) -> int | None:
        """Bytes, `most` at most, that a run would hold less if arguments gave their places to outputs of their kind.

        Until an output is made its place is lent to temporaries. Those that begin before the argument's last use would
        need another place, as would the output itself; later ones may live in the argument's. JAX gives the first
        arguments to the first outputs. None if it is not known when temporaries live, when an output is made, as where
        that is within a call (CPUs before JAX 0.8), what is copied, or what moves between an argument's last use and
        its output.
        """
        freed, unsure, apart = 0, False, list[Tenant]()
        arguments = defaultdict[tuple[str, tuple[int, ...]], list[Instruction]](list)
        for each in undonated(self._module):
            arguments[each.shape.type.name, each.shape.dimensions].append(each)
        for output, allocation, made in self._outputs():
            shape, lives = output.shape, self._ranges.of(made)
            alike = arguments[shape.type.name, shape.dimensions]
            if not alike:
                continue
            if not lives:
                return None
            freed += allocation.size
            tenants = self._tenants_of(allocation)
            begin = lives[0][0]
            argument = alike.pop(0)
            used = max((end for _, end in self._ranges.of([(argument, ())])), default=0)
            unsure |= used < begin or not self._ranges.follows_uses(output, argument)
            apart += [each for each in tenants if each.begin < used and self._made(each.value) != made]
            makers = (each for each, _ in made if self._ranges.times.get(each) == begin)
            if used > begin or (
                used == begin and not all(may_overwrite(each, {argument}) for each in makers)
            ):
                unsure = True
                apart.append(Tenant(allocation.index, 0, allocation.size, begin, used, tenants[0].value))
        before, with_others = _size(self._tenants), _size([*self._tenants, *apart])
        if before is None or with_others is None:
            return None
        freed = max(0, min(most, freed - (with_others - before)))
        return None if freed == most and unsure else freed

    def _outputs(self) -> Iterator[tuple[Instruction, Any, list[Position]]]:
        """The outputs that are made, in order: each with its allocation and where the value is, empty if not known."""
        places: dict[Position, tuple[Any, list[Position]]] = {}
        for allocation in self._allocations[OUTPUT]:
            for each in allocation.assigned:
                made = self._made(each.buffer_id)
                places |= dict.fromkeys(made, (allocation, made))
        root = self._module.entry.root
        for end in root.operands if root.opcode == "tuple" else (root,):
            defined = defined_at(end)
            if defined[0].opcode not in ("parameter", "constant"):
                yield (end, *places.get(defined, (None, [])))

    def _named(self, number: int, size: int, kind: str) -> Assigned | None:
        """The buffer of a value, and of those that take its place in turn."""
        defined, *aliases = self._places[number]
        own, shape = self._at(defined)
        if own is None or shape is None or shape.parts:
            return None  # a tuple is a table of pointers
        dtype, dimensions = shape.type.name, shape.dimensions
        if kind == ARGUMENT:
            name = self._provenance.of(own).operation_name or own.name
            return Assigned(Buffer(size, kind, dtype, dimensions, cut_name(name)))
        others = (self._at(location)[0] for location in aliases)
        candidates = [own, *(each for each in others if each is not None and each.opcode not in _PASSES_ON)]
        made = [(each, *maker_of(each, defined.shape_index if each is own else ())) for each in candidates]
        with_line = [each for each in made if self._origin(*each[:2])[0].source]
        best, maker, piecewise = max(with_line or made, key=lambda each: each[2])
        origin, name = self._origin(best, maker)
        loop = _loop_of(best, dimensions) if piecewise else None
        function = origin.stack[-1].function if origin.stack else ""
        turns = dimensions[0] if loop is not None else 1
        place = origin.scope, origin.source, function, origin.autodiff
        return Assigned(Buffer(size, kind, dtype, dimensions, cut_name(name), *place, turns), loop)

    def _origin(self, instruction: Instruction, maker: Instruction) -> tuple[Origin, str]:
        """Where a value comes from, and the name of the operation that made it."""
        origin = self._provenance.of(maker)
        if maker.opcode == "parameter" and maker.computation is self._module.entry:
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


def undonated(module: Module) -> list[Instruction]:
    """The arguments that give no output their place, in order."""
    taken = {each.parameter_number for each in module.message.input_output_alias.entries}
    return [each for number, each in sorted(module.entry.parameters.items()) if number not in taken]


def _kind(allocation: Any) -> str:
    """The sum that XLA counts it in: ``CompiledMemoryStats::PopulateBufferStatsFromAllocations``."""
    if allocation.is_parameter:
        return ARGUMENT
    if allocation.maybe_live_out:
        return OUTPUT
    return "constant" if allocation.is_constant else TEMPORARY


def _size(tenants: list[Tenant]) -> int | None:
    """Bytes of these that live when most do; None if their live ranges were misread."""
    with suppress(HloDecodeError):
        return sum(each.size for each in _most_at_once(tenants))
    return None


def _most_at_once(tenants: list[Tenant]) -> list[Tenant]:
    """The tenants that live at the moment when the sum of their sizes is largest.

    Raises HloDecodeError if two of them would have the same place: then their live ranges were misread.
    """
    arriving: defaultdict[int, list[Tenant]] = defaultdict(list)
    for tenant in tenants:
        arriving[tenant.begin].append(tenant)
    # The result of an operation may take the place of an operand that is used for the last time.
    tenants = [
        tenant._replace(end=tenant.end - 1)
        if any(tenant.begin < each.begin and tenant.overlaps(each) for each in arriving[tenant.end])
        else tenant
        for tenant in tenants
    ]
    changes: Counter[int] = Counter()
    for tenant in tenants:
        changes[tenant.begin] += tenant.size
        changes[tenant.end + 1] -= tenant.size
    times = sorted(changes)
    sums = list(accumulate(changes[time] for time in times))
    peak = times[sums.index(max(sums))] if sums else 0
    living = sorted(tenant for tenant in tenants if tenant.begin <= peak <= tenant.end)
    if any(one.overlaps(next_) for one, next_ in pairwise(living)):
        raise HloDecodeError("two would have the same place")
    return living


def _loop_of(instruction: Instruction, dimensions: Sequence[int]) -> Instruction | None:
    """The loop with a turn for each part of a buffer of these dimensions, which the instruction fills; else None."""
    computation = instruction.computation
    while computation.callers and computation.callers[0].opcode == "call":
        computation = computation.callers[0].computation
    for loop in computation.callers[:1]:
        if loop.opcode == "while" and dimensions and loop.trip_count == dimensions[0] > 1:
            return loop
    return None
