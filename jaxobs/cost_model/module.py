"""Computes the cost of a whole module: the sum of each schedulable instruction's cost times its executions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Final

from jaxobs.cost_model.arithmetic.dispatch import Arithmetic
from jaxobs.cost_model.arithmetic.tally import Tally
from jaxobs.cost_model.bounds import Bounds
from jaxobs.cost_model.custom_calls import BUILT_IN_RULES, Rule
from jaxobs.cost_model.element_types.rewritten import Rewritten
from jaxobs.cost_model.errors import HloDecodeError
from jaxobs.cost_model.hlo.call_graph import callees_first, embedded, executions, scheduled
from jaxobs.cost_model.hlo.decode import decode
from jaxobs.cost_model.hlo.fingerprint import fingerprint
from jaxobs.cost_model.hlo.instructions import Computation, Instruction, Module
from jaxobs.cost_model.hlo.opcodes import CONTROL, FREE
from jaxobs.cost_model.hlo.scopes import Provenance
from jaxobs.cost_model.traffic.bytes_moved import traffic
from jaxobs.cost_model.traffic.collectives import add_collective, kind_of
from jaxobs.cost_model.traffic.donation import donatable_bytes
from jaxobs.cost_model.traffic.fusions import FusionTraffic
from jaxobs.model.cost import Cost, ModuleCost, OperationCost

MAIN_LOOP_SHARE: Final = 0.5
"""Least share of the module's FLOPs in a loop for it to be the main loop: that of the
steps, where a whole training is one call."""


def module_cost(
    serialized: bytes | memoryview,
    *,
    custom_call_rules: Mapping[str, Rule] = BUILT_IN_RULES,
) -> ModuleCost:
    """The cost of the module on one device.

    ``serialized`` is an optimised ``HloModuleProto``, as ``executable.hlo_modules()[0]`` serialises it; of a
    partitioned module it is one device's program. ``custom_call_rules`` give the costs of custom calls by
    target. Raises ``HloDecodeError`` where the bytes are no such module or hold more than
    ``decode.MAXIMUM_INSTRUCTIONS``.
    """
    module = decode(serialized)
    try:
        return _Walk(module, custom_call_rules).result()
    except (OverflowError, RecursionError) as error:
        raise HloDecodeError(f"module {module.name!r} has implausible sizes: {error}") from None
    finally:
        module.release()


class _Walk:
    def __init__(self, module: Module, rules: Mapping[str, Rule]) -> None:
        self.module = module
        self.order = callees_first(module)
        self.scheduled = scheduled(self.order, module.entry)
        inside = embedded(self.order, self.scheduled)
        rewritten = Rewritten(self.order)
        module.first_work = rewritten.first
        self.arithmetic = Arithmetic(self.order, rules, rewritten)
        for computation in self.order:
            if computation in inside:
                self.arithmetic.prepare(computation)
        self.fusions = FusionTraffic()
        self.provenance = Provenance(module)
        self.bounds = Bounds()
        self.once: dict[Computation, list[tuple[Instruction, Tally]]] = {}

    def result(self) -> ModuleCost:
        for computation in self.order:
            if computation in self.scheduled:
                self._add_up(computation)
        times = executions(self.order, self.module.entry, self.bounds.least_branch)
        operations = [
            self._operation(instruction, tally, times[computation])
            for computation in self.order[::-1]
            if computation in self.scheduled
            for instruction, tally in self.once.pop(computation)
        ]
        cost = _finite(self.bounds.least[self.module.entry].freeze(), self.module)
        dearest = self.bounds.most[self.module.entry]
        most = cost if cost.exact else dearest.freeze() if dearest else None
        if most is not None and cost.figures() != most.figures():
            cost = replace(cost, at_most=replace(most, exact=True, inexact_reasons=()))
        return ModuleCost(
            fingerprint(self.module),
            cost,
            tuple(operations),
            donatable_bytes(self.module),
            _main_loop_trips(self.module.entry, self.bounds.least),
        )

    def _add_up(self, computation: Computation) -> None:
        own: list[tuple[Instruction, Tally]] = []
        total = Tally()
        control = []
        for instruction in computation.instructions:
            opcode = instruction.opcode
            if opcode in FREE:
                continue
            tally = Tally()
            if opcode in CONTROL:
                if not instruction.runs_on_host:
                    control.append(instruction)
                    continue
                tally.add_unmodelled(["computation on the host"])
                own.append((instruction, tally))
                total.add(tally)
                continue
            self.arithmetic.add(instruction, tally)
            tally.bytes += traffic(instruction, self.fusions)
            if kind_of(opcode) is not None:
                add_collective(instruction, tally)
            if instruction.shape.dynamic:
                tally.add_reason(_dynamic_shape_reason(instruction))
            own.append((instruction, tally))
            total.add(tally)
        self.once[computation] = own
        self.bounds.add(computation, total, control)

    def _operation(self, instruction: Instruction, tally: Tally, times: float) -> OperationCost:
        name, scope, source = self.provenance.of(instruction)
        return OperationCost(instruction.name, instruction.opcode, name, scope, source, times, tally.freeze())


def _dynamic_shape_reason(instruction: Instruction) -> str:
    return f"{instruction.name} has a size that is known only at run time; counted at its bound"


def _finite(cost: Cost, module: Module) -> Cost:
    if not (isfinite(cost.flops) and isfinite(cost.bytes) and isfinite(cost.transcendentals)):
        raise HloDecodeError(f"module {module.name!r} has implausible sizes: its cost is not finite")
    return cost


def _main_loop_trips(entry: Computation, least: Mapping[Computation, Tally]) -> int | None:
    """The known trip count of the outermost loop with most of the FLOPs; None where there is no such loop.

    ``least`` has the cost of one run of each computation.
    """
    flops = least[entry].flops
    waiting = [entry]
    while waiting:
        for instruction in waiting.pop().instructions:
            if instruction.opcode == "call":
                waiting += instruction.called[:1]
            trips = instruction.trip_count if instruction.opcode == "while" else None
            if (
                trips is not None
                and trips > 1
                and trips * least[instruction.called[0]].flops > MAIN_LOOP_SHARE * flops
            ):
                return trips
    return None
