"""Reads operation names, the user's named scopes in them, and source lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from jaxobs.cost_model.hlo.instructions import Computation, Instruction, Module, backwards
from jaxobs.model.cost import BACKWARD, FORWARD, REMATERIALIZED, Frame
from jaxobs.model.source_files import is_installed
from jaxobs.proto.messages import MetadataMessage
from jaxobs.vocabulary.text import cut_name

_TRANSFORMATION: Final = re.compile(
    r"(?:vmap|jvp|transpose|linearize|pmap|xmap|shard_map)\((.*)\)\Z", re.DOTALL
)
_FUNCTION: Final = re.compile(
    r"(?:jit|pjit|checkpoint|remat|custom_jvp|custom_vjp|core_call)\(.*\)\Z", re.DOTALL
)
AGAIN: Final = "rematted_computation"
"""JAX's name for what ``jax.checkpoint`` computes once more."""
# `jit(f)/(a/dot:b/reduce)`: the names of all-reduces that XLA combined to one.
_COMBINED: Final = re.compile(r"/\(([^:]*):.*\)\Z", re.DOTALL)
_EINSUM: Final = "->"  # jnp.einsum names a scope after its subscripts
# Path elements that JAX makes for its own control flow and calls; branch_3_fun is a conditional's branch.
_STRUCTURE: Final = re.compile(
    r"(?:while|scan|body|cond|branch_\d+_fun|closed_call|core_call|checkpoint|remat\d?|rematted_computation|eval_jaxpr|"
    r"custom_jvp_call|custom_vjp_call|custom_vjp_call_jaxpr|pjit|jit|shard_map|xla_call|main|)\Z"
)

MAX_FRAMES: Final = 1_000
"""Most frames read of an operation's stack: with nested loops XLA writes that of the outer ones several times."""

MAX_CALLS: Final = 100
"""Most calls kept of them, the innermost: as many as JAX writes by default (`jax_traceback_in_locations_limit`)."""


@lru_cache(maxsize=4096)
def scope_of(operation_name: str) -> str:
    """The user's scopes in an operation name, outermost first.

    For ``jit(step)/transpose(jvp(decoder))/layer/dot_general`` it is ``decoder/layer``: the primitive, jitted
    functions' names, transformations and control flow are left out, so that a layer's forward and backward
    operations have one scope. Where the compiler joined several names, the first counts.
    """
    scopes: list[str] = []
    first = _COMBINED.sub(r"/\1", operation_name.partition(";")[0])
    for transformed in first.split("/")[:-1]:
        element = transformed
        while found := _TRANSFORMATION.match(element):
            element = found.group(1)
        if not _FUNCTION.match(element) and not _STRUCTURE.match(element) and _EINSUM not in element:
            if element != transformed and element in scopes:
                del scopes[scopes.index(element) :]  # a call in it repeats the scopes around it
            scopes.append(element)
    return "/".join(scopes)


def autodiff_of(operation_name: str) -> str:
    """The part of automatic differentiation that JAX's transformations in an operation name tell of; empty for none."""
    name = operation_name.partition(";")[0]
    if AGAIN in name:
        return REMATERIALIZED
    return BACKWARD if "transpose(" in name else FORWARD if "jvp(" in name or "linearize(" in name else ""


def operation_name(instruction: Instruction) -> str:
    """The operation's name from JAX; empty for instructions that the compiler made without one."""
    return str(_metadata(instruction).op_name, "utf-8", "replace") if instruction.message.metadata else ""


def was_product(instruction: Instruction) -> bool:
    """Whether the program wrote a dot product here that the compiler turned into other opcodes."""
    if b"dot_general" not in instruction.message.metadata:
        return False
    return any(f"/{name}".endswith("/dot_general") for name in operation_name(instruction).split(";"))


def _metadata(instruction: Instruction) -> Any:
    return MetadataMessage.FromString(instruction.message.metadata)


class Origin(NamedTuple):
    """Where an instruction comes from; empty for what the compiler did not record."""

    operation_name: str
    scope: str
    source: str
    """``file:line``."""
    stack: tuple[Frame, ...]
    autodiff: str


NOWHERE: Final = Origin("", "", "", (), "")


class Provenance:
    """The operation names, source lines and call stacks of a module's instructions."""

    def __init__(self, module: Module) -> None:
        self._frames = module.message.stack_frame_index
        self._stacks: dict[int, tuple[Frame, ...]] = {}
        self.known: dict[bytes, Origin] = {}
        self._after: dict[Instruction | None, Origin] = {}
        self._before: dict[Instruction | None, Origin] = {}
        """Where instructions come from, those without a line by what follows them, or by what is before them."""

    def of(self, instruction: Instruction) -> Origin:
        """Where the instruction comes from.

        XLA gives a fusion what its root has, which is no line where that is a conversion of its own, as around each
        computation in bfloat16 on a GPU. Such a fusion comes from the nearest instruction before its root that has one.
        """
        own = self.noted(instruction)
        if own.source or instruction.opcode != "fusion" or not instruction.called:
            return own
        inside = map(self.noted, backwards(instruction.called[0].root))
        return next((origin for origin in inside if origin.source), own)

    def served(self, instruction: Instruction) -> Origin:
        """Where the work of an instruction comes from.

        What XLA has added, as the copy of an argument or the all-gather of one that is sharded, has no line, and is for
        what needs it: it comes from its first user, or that one's; what only becomes a result, from what made it.
        """
        own = self.of(instruction)
        if own.source:
            return own
        if instruction not in self._after:
            self._settle(instruction.computation)
        for found in (self._after[instruction], self._before[instruction]):
            if found.source:
                scope, autodiff = own.scope or found.scope, own.autodiff or found.autodiff
                return found._replace(operation_name=own.operation_name, scope=scope, autodiff=autodiff)
        return own

    def _settle(self, computation: Computation) -> None:
        """Find where all instructions of a computation come from, each by its neighbour's where it has no line."""
        every = computation.instructions
        first_user = {operand: user for user in reversed(every) for operand in user.operands}
        for instruction in reversed(every):
            own, user = self.of(instruction), first_user.get(instruction)
            self._after[instruction] = own if own.source else self._after.get(user, NOWHERE)
        for instruction in every:
            own, operand = self.of(instruction), next(iter(instruction.operands), None)
            self._before[instruction] = own if own.source else self._before.get(operand, NOWHERE)

    def noted(self, instruction: Instruction) -> Origin:
        """What the compiler noted of the instruction itself."""
        serialized: bytes = instruction.message.metadata
        known = self.known.get(serialized)
        if known is None:
            metadata = _metadata(instruction)
            name = str(metadata.op_name, "utf-8", "replace")
            stack = self.stack_of(metadata.stack_frame_id)
            if not stack and metadata.source_file:
                stack = (Frame("", str(metadata.source_file, "utf-8", "replace"), metadata.source_line),)
            source = f"{stack[-1].file}:{stack[-1].line}" if stack else ""
            scope = cut_name(scope_of(name))
            known = self.known[serialized] = Origin(name, scope, source, stack, autodiff_of(name))
        return known

    def stack_of(self, frame_id: int) -> tuple[Frame, ...]:
        """The frames outside installed packages, outermost first, or else the innermost frame alone."""
        waiting: list[tuple[int, Frame]] = []
        at = frame_id
        while at not in self._stacks and len(waiting) < MAX_FRAMES and (found := self._frame(at)):
            waiting.append((at, found[0]))
            at = found[1]
        stack = self._stacks.get(at, ())
        for number, frame in reversed(waiting):
            if not is_installed(frame.file):
                stack = _without_repetition((*stack, frame))[-MAX_CALLS:]
            self._stacks[number] = stack
        innermost = self._frame(frame_id)
        return stack or (innermost[:1] if innermost else ())

    def _frame(self, frame_id: int) -> tuple[Frame, int] | None:
        """A frame and the id of its caller's; all ids count from 1, 0 is none."""
        frame = _entry(self._frames.stack_frames, frame_id)
        location = frame and _entry(self._frames.file_locations, frame.file_location_id)
        file = location and _entry(self._frames.file_names, location.file_name_id)
        if file is None:
            return None
        name = _entry(self._frames.function_names, location.function_name_id) or b""
        function = cut_name(str(name, "utf-8", "replace"))
        return Frame(function, str(file, "utf-8", "replace"), location.line), frame.parent_frame_id


def _entry(table: Sequence[Any], number: int) -> Any:
    """An entry by its id; None if there is none."""
    return table[number - 1] if 0 < number <= len(table) else None


def _without_repetition(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The stack without its last frames where these repeat those before them.

    Where XLA inlines a computation it puts the stack of its call before each stack in it, in which that call stands as
    well. So calls that a function makes of itself in one line are one, too.
    """
    for size in range(1, len(stack) // 2 + 1):
        if stack[-size:] == stack[-2 * size : -size]:
            return stack[:-size]
    return stack
