"""What would free memory at the peak, and how much, where the module tells: said in the words that a user changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from jaxobs.cost_model.buffers import Assigned, Assignment
from jaxobs.cost_model.dataflow import maker_of
from jaxobs.cost_model.hlo.instructions import Instruction, Module, instructions_of
from jaxobs.model.cost import FORWARD
from jaxobs.model.peak_memory import TEMPORARY, PeakMemory, Saving
from jaxobs.vocabulary.units import byte_size

MIN_SHARE: Final = 0.01
"""Least share of what a run needs that is worth a word: allocators lose about as much in rounding."""

_NARROWER: Final = {"float64": "float32", "complex128": "complex64"}
"""Types that JAX uses only where a program asks for them, by the one that it uses otherwise."""

_REPLICATED: Final = 0  # openxla/xla, xla/xla_data.proto, OpSharding.Type


def savings(
    module: Module, assignment: Assignment, memory: PeakMemory, buffers: Sequence[Assigned], donatable: float
) -> tuple[Saving, ...]:
    """What rematerialisation, donation, a narrower type and sharding would free, the most first."""
    size = int(donatable)
    found = (
        *_rematerialisation(module, assignment, memory.live or 0, buffers),
        *_donation(size, None if memory.live is None else assignment.freed_by_donation(size)),
        *_narrower_type(buffers),
        *_sharding(module),
    )
    worth = (each for each in found if each.bytes >= max(1, MIN_SHARE * memory.needed))
    return tuple(sorted(worth, key=lambda each: -each.bytes))


def _rematerialisation(
    module: Module, assignment: Assignment, live: int, buffers: Sequence[Assigned]
) -> Iterator[Saving]:
    """Values of the forward pass that the backward pass keeps.

    Where a loop over layers has stacked them, its body under ``jax.checkpoint`` frees all that is no result, but for what
    another moment needs and the carry of each turn, which is kept then; at least that less the values of one turn,
    which are computed anew. Else it is not known which of them stay, but the largest is made again.
    """
    kept = [each for each in buffers if each.buffer.kind == TEMPORARY and each.buffer.autodiff == FORWARD]
    every = instructions_of(module.computations)
    if not kept or not any(b"transpose(" in each.message.metadata for each in every):
        return
    stacked: defaultdict[Instruction, list[Assigned]] = defaultdict(list)
    for each in kept:
        if each.loop is not None and not assignment.is_result(each):
            stacked[each.loop].append(each)
    freed = [each for filled in stacked.values() for each in filled]
    left = assignment.live_without(freed) if freed else None
    about = 0 if left is None else min(_size(freed), live - left)
    about -= sum(filled[0].buffer.turns * _carried(loop) for loop, filled in stacked.items())
    least = about - sum(_size(filled) // filled[0].buffer.turns for filled in stacked.values())
    if least > 0:
        where = "the body of the loop that stacks them"
        most, amount = about, f"about {byte_size(about)}, at least {byte_size(least)}"
    else:
        freed, where = kept, "the functions that make them"
        most = _size(kept) - kept[0].buffer.bytes
        amount = f"at most {byte_size(most)}"
    yield Saving(
        "rematerialisation", most, least if least > 0 else None,
        f"{byte_size(_size(freed))} of values are kept from the forward pass for the backward pass: `jax.checkpoint` "
        f"around {where} computes them again instead, and frees {amount}",
    )  # fmt: skip


def _size(buffers: Iterable[Assigned]) -> int:
    return sum(each.buffer.bytes for each in buffers)


def _carried(loop: Instruction) -> int:
    """Bytes of floating arrays that each turn of a loop makes anew for the next."""
    root = loop.called[0].root
    return sum(
        int(operand.shape.bytes)
        for operand in (root.operands if root.opcode == "tuple" else ())
        if operand.shape.floating
        and operand.opcode != "get-tuple-element"  # handed on
        and not maker_of(operand, ())[1]  # a part of a larger one
    )


def _donation(size: int, freed: int | None) -> Iterator[Saving]:
    """Arguments of this size that outputs are like; `freed` is None if it is not known when temporaries live.

    What temporaries that must move to another place waste or save by their packing is not known before.
    """
    about, how = size, ""
    if freed is None:
        how = f", and free at most {byte_size(size)}"
    elif freed < size:
        about, why = (
            freed,
            "temporaries use the outputs' places until these are made, or arguments are used after that",
        )
        how = f", and free about {byte_size(freed)}: {why}"
    if about:
        yield Saving(
            "donation", about, freed if freed == size else None,
            f"{byte_size(size)} of arguments are held beside outputs of the same shapes and types: donated "
            "(`donate_argnums` of `jax.jit`), they give their place to these, if the caller does not use them again"
            + how,
        )  # fmt: skip


def _narrower_type(buffers: Sequence[Assigned]) -> Iterator[Saving]:
    for wide, narrow in _NARROWER.items():
        found = [each for each in buffers if each.buffer.dtype == wide]
        if size := _size(found):
            line = next((each.buffer.source for each in found if each.buffer.source), "")
            where = f", the largest made at {line}" if line else ""
            yield Saving(
                "smaller type", size // 2, size // 2,
                f"{byte_size(size)} are of {wide}{where}: in {narrow} they take half, {byte_size(size // 2)} less",
            )  # fmt: skip


def _sharding(module: Module) -> Iterator[Saving]:
    devices = module.message.device_assignment.computation_count
    size = sum(
        int(module.entry.parameters[number].shape.bytes)
        for number, sharding in enumerate(module.message.parameter_shardings)
        if sharding.type == _REPLICATED and not any(each.axes for each in sharding.named.dimensions)
        if number in module.entry.parameters
    )
    if devices > 1 and size:
        freed = size - size // devices
        yield Saving(
            "sharding", freed, freed,
            f"each of {devices} devices holds a whole copy of {byte_size(size)} of arguments: sharded over the devices "
            f"each would hold {byte_size(size // devices)} of them, {byte_size(freed)} less",
        )  # fmt: skip
