"""Computes the cost of a whole module: the sum of each schedulable instruction's cost times its executions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Final

from google.protobuf.message import DecodeError

from jaxobs.cost_model.arithmetic.dispatch import Arithmetic
from jaxobs.cost_model.bounds import Bounds
from jaxobs.cost_model.buffers import Assignment, undonated
from jaxobs.cost_model.collectives import collective_cost
from jaxobs.cost_model.contents import contents_of
from jaxobs.cost_model.custom_calls import BUILT_IN_RULES
from jaxobs.cost_model.custom_calls.protocol import Rule
from jaxobs.cost_model.hlo.decode import callees_first, decoded, where_run
from jaxobs.cost_model.hlo.fingerprint import fingerprint
from jaxobs.cost_model.hlo.instructions import (
    CONTROL,
    FREE,
    Computation,
    HloDecodeError,
    Instruction,
    Module,
    Shape,
)
from jaxobs.cost_model.hlo.scopes import Provenance
from jaxobs.cost_model.memory_savings import savings
from jaxobs.cost_model.traffic import FusionTraffic, traffic
from jaxobs.cost_model.trips import inferred_trips
from jaxobs.model.cost import AT_MOST, FORWARD, REMATERIALIZED, Cost, ModuleCost, OperationCost, sum_of
from jaxobs.model.peak_memory import NOT_GIVEN, PeakMemory

MAX_REASON: Final = 500
"""Letters: a reason is a line, but it may quote what was read."""

MAIN_LOOP_SHARE: Final = 0.5
"""Least share of the module's FLOPs in a loop for it to be the main loop: that of the
steps, where a whole training is one call."""


def module_cost(
    serialized: bytes | memoryview,
    *,
    custom_call_rules: Mapping[str, Rule] = BUILT_IN_RULES,
    buffers: bytes = b"",
) -> ModuleCost:
    """The cost of the module on one device.

    ``serialized`` is an optimised ``HloModuleProto``, as ``executable.hlo_modules()[0]`` serialises it; of a
    partitioned module it is one device's program. ``custom_call_rules`` give the costs of custom calls by
    target. ``buffers`` is the module's ``BufferAssignmentProto``, for its memory. Raises ``HloDecodeError`` if the bytes
    are no such module or hold more than ``decode.MAXIMUM_INSTRUCTIONS``.
    """
    with decoded(serialized) as module:
        return _Walk(module, custom_call_rules, buffers).result()


def cost_or_reason(
    serialized: bytes | memoryview, *, custom_call_rules: Mapping[str, Rule], buffers: bytes = b""
) -> ModuleCost | str:
    """What `module_cost` returns, or in MAX_REASON letters why there is none: one module must not end the rest."""
    try:
        return module_cost(serialized, custom_call_rules=custom_call_rules, buffers=buffers)
    except HloDecodeError as error:
        return f"its module could not be read: {error}"[:MAX_REASON]
    except Exception as error:  # noqa: BLE001  # a rule of somebody else's may raise anything
        return f"its cost could not be derived: {type(error).__name__}: {error}"[:MAX_REASON]


class _Walk:
    def __init__(self, module: Module, rules: Mapping[str, Rule], buffers: bytes) -> None:
        self.module = module
        self.buffers = buffers
        self.order = callees_first(module)
        self.scheduled, embedded = where_run(self.order, module.entry)
        module.inferred_trips = inferred_trips(self.order)
        self.fusions = FusionTraffic()
        self.arithmetic = Arithmetic(self.order, rules, self.fusions)
        module.first_work = self.arithmetic.rewritten.first
        for computation in self.order:
            if computation in embedded:
                self.arithmetic.prepare(computation)
        self.provenance = Provenance(module)
        self.bounds = Bounds()
        self.once: dict[Computation, list[tuple[Instruction, Cost]]] = {}
        self.without_work: list[Instruction] = []

    def result(self) -> ModuleCost:
        for computation in self.order:
            if computation in self.scheduled:
                self._add_up(computation)
        times = self.bounds.executions(self.order, self.module.entry)
        operations = [
            self._operation(instruction, once, times[computation])
            for computation in self.order[::-1]
            if computation in self.scheduled
            for instruction, once in self.once.pop(computation)
        ]
        cost = self.bounds.least[self.module.entry]
        if not (isfinite(cost.flops) and isfinite(cost.bytes) and isfinite(cost.transcendentals)):
            raise HloDecodeError(f"module {self.module.name!r} has implausible sizes: its cost is not finite")
        donatable = donatable_bytes(self.module)
        memory, why_unknown = self._memory(donatable)
        if memory is not None and memory.live is not None:
            donatable = sum(each.bytes for each in memory.savings if each.change == "donation")
        return ModuleCost(
            fingerprint(self.module),
            cost,
            tuple(operations),
            donatable,
            _main_loop_trips(self.module.entry, self.bounds.least),
            tuple(self._operation(instruction, Cost(), 0.0) for instruction in self.without_work),
            contents_of(self.module, self.provenance),
            memory,
            why_unknown,
        )

    def _memory(self, donatable: float) -> tuple[PeakMemory | None, str]:
        """What a run holds, or None and why that is not known: the cost is known all the same."""
        if not self.buffers:
            return None, NOT_GIVEN
        try:
            assignment = Assignment(self.module, self.provenance, self.buffers)
            memory, buffers = assignment.memory()
            found = savings(self.module, assignment, memory, buffers, donatable)
        except (HloDecodeError, DecodeError, KeyError, IndexError) as error:
            return None, f"the buffer assignment could not be read: {error}"[:MAX_REASON]
        return replace(memory, savings=found), ""

    def _add_up(self, computation: Computation) -> None:
        own: list[tuple[Instruction, Cost]] = []
        for instruction in computation.instructions:
            opcode = instruction.opcode
            if opcode in CONTROL or opcode.endswith(("-done", "-update")):
                self.without_work.append(instruction)
            if opcode not in FREE and (opcode not in CONTROL or instruction.runs_on_host):
                own.append((instruction, self._once(instruction)))
        self.once[computation] = own
        self.bounds.add(computation, (cost for _, cost in own))

    def _once(self, instruction: Instruction) -> Cost:
        """The cost of one execution."""
        if instruction.opcode in CONTROL:
            return Cost(exact=False, unmodelled=("computation on the host",))
        reasons = []
        if instruction.shape.dynamic:
            reasons.append(f"{instruction.name} has a size that is known only at run time; {AT_MOST}")
        moved = Cost(bytes=traffic(instruction, self.fusions), inexact_reasons=tuple(reasons))
        parts = self.arithmetic.cost(instruction), collective_cost(instruction), moved
        return sum_of((part, 1.0) for part in parts)

    def _operation(self, instruction: Instruction, once: Cost, times: float) -> OperationCost:
        name, scope, source, stack, autodiff = self.provenance.served(instruction)
        if autodiff == REMATERIALIZED and once.matrix_flops and not once.rematerialized_flops:
            autodiff = FORWARD  # the compiler merged it with the equal one that it would repeat
        return OperationCost(
            instruction.name, instruction.opcode, name, scope, source, times, once, stack, autodiff
        )


def _main_loop_trips(entry: Computation, least: Mapping[Computation, Cost]) -> int | None:
    """The known trip count of the outermost loop with most of the FLOPs; None if there is no such loop.

    ``least`` has the cost of one run of each computation.
    """
    flops = least[entry].flops
    waiting = [entry]
    while waiting:
        for instruction in waiting.pop().instructions:
            if instruction.opcode == "call":
                waiting += instruction.called[:1]
            trips = (instruction.trip_count or 0) if instruction.opcode == "while" else 0
            if trips > 1 and trips * least[instruction.called[0]].flops > MAIN_LOOP_SHARE * flops:
                return trips
    return None


def donatable_bytes(module: Module) -> float:
    """Bytes on one device of the arguments with the element type and dimensions of an output.

    JAX requires these of a donated argument. Each argument and each output counts once, and those already donated do
    not count. Whether the caller uses the argument again cannot be seen here.
    """
    filled = {tuple(entry.output_shape_index) for entry in module.message.input_output_alias.entries}
    root = module.entry.root.shape
    free = [shape for index, shape in enumerate(root.parts or (root,)) if not {(), (index,)} & filled]
    both = _kinds(free) & _kinds(each.shape for each in undonated(module))
    return float(sum(amount * count for (_, _, amount), count in both.items()))


def _kinds(shapes: Iterable[Shape]) -> Counter[tuple[str, tuple[int, ...], float]]:
    return Counter((shape.type.name, shape.dimensions, shape.bytes) for shape in shapes if not shape.parts)
