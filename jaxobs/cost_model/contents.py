"""Finds in a module what makes it slow to compile: an unrolled loop, by the lines that wrote it, and large constants.

An unrolled loop leaves no mark, but each of its turns leaves the same operations with the same call stack. So a stack
whose operations are all there n times was walked n times, or calls something that loops.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from jaxobs.cost_model.hlo.decode import decoded
from jaxobs.cost_model.hlo.instructions import Instruction, Module, instructions_of
from jaxobs.cost_model.hlo.scopes import Provenance
from jaxobs.model.contents import MIN_CONSTANT_BYTES, Constant, Contents, Unrolled, largest
from jaxobs.model.cost import Frame
from jaxobs.model.figure import Figure, figure
from jaxobs.vocabulary.units import rough_percent

Stack = tuple[Frame, ...]

NOT_COUNTED: Final = frozenset(["parameter", "constant", "tuple", "get-tuple-element"])
"""Opcodes of values that are handed on: nothing is computed, and none has a line of its own."""

NUMBERS: Final = re.compile(r"\d+")
"""Scopes are numbered where layers are: `block_7/attention`, Flax's `Dense_3`."""

AUTOTUNED: Final = re.compile(
    rb'"(?:selected_algorithm|triton_gemm_config|plan_id|cudnn_conv_backend_config)"|"__triton_nested_gemm_fusion"'
)
"""Marks, in XLA's configurations for GPUs, of an operation whose kernel autotuning chooses where it is on
(``xla/service/gpu/backend_configs.proto``): cuBLAS's algorithm, Triton's tiles, cuDNN's plan. JAX itself sets that of
cuDNN's attention."""

MIN_TIMES: Final = 10
"""Fewer turns are no burden to a compiler that is worth another way to write them."""

MIN_SHARE: Final = 0.25
"""Least share of a module's instructions for an unrolled loop to explain its compile."""

ALIKE: Final = 0.9
"""Share of a stack's operations that must be there so often, and of that number that is often enough: the compiler
simplifies some operations of the first and of the last turn."""


def module_contents(serialized: bytes) -> Contents:
    """What an optimised ``HloModuleProto`` holds. Raises ``HloDecodeError``."""
    with decoded(serialized) as module:
        return contents_of(module, Provenance(module))


def contents_of(module: Module, provenance: Provenance) -> Contents:
    """What the module holds."""
    alike: defaultdict[tuple[bytes, str], list[Instruction]] = defaultdict(list)
    constants: list[Constant] = []
    autotuned = 0
    for instruction in instructions_of(module.computations):
        if instruction.opcode not in NOT_COUNTED:
            alike[instruction.message.metadata, instruction.opcode].append(instruction)
            if instruction.opcode in ("custom-call", "fusion"):
                autotuned += AUTOTUNED.search(instruction.backend_config) is not None
        elif instruction.opcode == "constant" and instruction.shape.bytes >= MIN_CONSTANT_BYTES:
            # It has the line of what uses it, as it has none of its own.
            shape, line = instruction.shape, provenance.served(instruction).source
            constants.append(Constant(shape.type.name, shape.dimensions, shape.bytes, line))
    stacks: defaultdict[Stack, Counter[tuple[str, str]]] = defaultdict(Counter)
    for (_, opcode), each in alike.items():
        origin = provenance.noted(each[0])
        stacks[origin.stack][NUMBERS.sub("", origin.operation_name), opcode] += len(each)
    unrolled = figure(unrolled_loop(stacks), f"no unrolled loop has {rough_percent(MIN_SHARE)} of it")
    return Contents(Figure(sum(map(len, alike.values()))), unrolled, largest(constants), Figure(autotuned))


def unrolled_loop(stacks: Mapping[Stack, Counter[tuple[str, str]]]) -> Unrolled | None:
    """The unrolled loop with most operations; None if none has MIN_SHARE of them.

    `stacks` has for each call stack, outermost frame first, how often each operation is there with it.
    """
    sizes: Counter[int] = Counter()
    times = {stack: _times(list(each.values())) for stack, each in stacks.items() if stack}
    for stack, number in times.items():
        sizes[number] += stacks[stack].total()
    del sizes[0]
    if not sizes:
        return None
    most = max(sizes, key=lambda number: (sizes[number], number))
    alike = (stack for stack, number in times.items() if ALIKE * most <= number <= most / ALIKE)
    common = _common({stack: stacks[stack].total() for stack in alike})
    below = [s for s, number in times.items() if s[: len(common)] == common and number >= ALIKE * most]
    size, whole = sum(stacks[stack].total() for stack in below), sum(map(Counter.total, stacks.values()))
    if not common or size < MIN_SHARE * whole:
        return None
    caller = f"{common[-2].file}:{common[-2].line}" if len(common) > 1 else ""
    line = f"{common[-1].file}:{common[-1].line}"
    within = _within([stack[len(common) :] for stack in below])
    return Unrolled(most, round(size / most), size / whole, line, common[-1].function, within, caller)


def _times(counts: list[int]) -> int:
    """How often a stack was walked on which each operation is there so often; 0 if that is not clear, or not often."""
    frequent = Counter(number for number in counts if number >= MIN_TIMES)
    number = max(frequent, key=lambda each: (frequent[each], each), default=0)
    often = sum(each for each in counts if each >= ALIKE * number)
    return number if often >= ALIKE * sum(counts) else 0


def _common(sizes: Mapping[Stack, int]) -> Stack:
    """The frames that nearly all operations have in common; `sizes`: how many each stack has."""
    common: Stack = ()
    while True:
        following: Counter[Frame] = Counter()
        for stack, size in sizes.items():
            if len(stack) > len(common) and stack[: len(common)] == common:
                following[stack[len(common)]] += size
        most = following.most_common(1)
        if not most or most[0][1] < ALIKE * sum(sizes.values()):
            return common
        common = (*common, most[0][0])


def _within(rest: Iterable[Stack]) -> str:
    """The lines of one function that the rests of stacks begin with; empty if these are of several, or end here."""
    places = {(frame.file, frame.function) for stack in rest for frame in stack[:1]}
    lines = sorted({stack[0].line if stack else 0 for stack in rest})
    if len(places) != 1 or len(lines) < 2 or not lines[0]:
        return ""
    return f"lines {lines[0]} to {lines[-1]} of {next(iter(places))[1]}"
