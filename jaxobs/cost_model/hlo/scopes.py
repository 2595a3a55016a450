"""Reads operation names, the user's named scopes in them, and source lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError

from jaxobs.cost_model.hlo.instructions import HloDecodeError, Instruction, Module
from jaxobs.model.source_files import is_installed
from jaxobs.proto.messages import MetadataMessage
from jaxobs.vocabulary.text import cut_name

_TRANSFORMATION: Final = re.compile(
    r"(?:vmap|jvp|transpose|linearize|pmap|xmap|shard_map)\((.*)\)\Z", re.DOTALL
)
_FUNCTION: Final = re.compile(
    r"(?:jit|pjit|checkpoint|remat|custom_jvp|custom_vjp|core_call)\(.*\)\Z", re.DOTALL
)
_EINSUM: Final = "->"  # jnp.einsum names a scope after its subscripts
# Path elements that JAX makes for its own control flow and calls; branch_3_fun is a conditional's branch.
_STRUCTURE: Final = re.compile(
    r"(?:while|scan|body|cond|branch_\d+_fun|closed_call|core_call|checkpoint|remat\d?|rematted_computation|"
    r"custom_jvp_call|custom_vjp_call|custom_vjp_call_jaxpr|pjit|jit|shard_map|xla_call|main|)\Z"
)

MAX_FRAMES: Final = 100
"""Most frames read of an operation's stack; JAX writes ten by default (`jax_traceback_in_locations_limit`)."""


def scope_of(operation_name: str) -> str:
    """The user's scopes in an operation name, outermost first.

    For ``jit(step)/transpose(jvp(decoder))/layer/dot_general`` it is ``decoder/layer``: the primitive, jitted
    functions' names, transformations and control flow are left out, so that a layer's forward and backward
    operations have one scope. Where the compiler joined several names by semicolons, the first counts.
    """
    scopes = []
    for transformed in operation_name.partition(";")[0].split("/")[:-1]:
        element = transformed
        while found := _TRANSFORMATION.match(element):
            element = found.group(1)
        if not _FUNCTION.match(element) and not _STRUCTURE.match(element) and _EINSUM not in element:
            scopes.append(element)
    return "/".join(scopes)


def operation_name(instruction: Instruction) -> str:
    """The operation's name from JAX; empty for instructions that the compiler made without one."""
    return str(_metadata(instruction).op_name, "utf-8", "replace") if instruction.message.metadata else ""


def _metadata(instruction: Instruction) -> Any:
    try:
        return MetadataMessage.FromString(instruction.message.metadata)
    except DecodeError as error:
        raise HloDecodeError(f"metadata of {instruction.name!r} cannot be read: {error}") from None


class Provenance:
    """The operation names and source lines of a module's instructions."""

    def __init__(self, module: Module) -> None:
        self._frames = module.message.stack_frame_index
        self._sources: dict[int, str] = {}
        self._scopes: dict[str, str] = {}
        self.known: dict[bytes, tuple[str, str, str]] = {}

    def of(self, instruction: Instruction) -> tuple[str, str, str]:
        """Operation name, scope and ``file:line``; empty texts for what the compiler did not record."""
        serialized: bytes = instruction.message.metadata
        known = self.known.get(serialized)
        if known is None:
            metadata = _metadata(instruction)
            name = str(metadata.op_name, "utf-8", "replace")
            source = self._users_line(metadata.stack_frame_id)
            if not source and metadata.source_file:
                source = f"{str(metadata.source_file, 'utf-8', 'replace')}:{metadata.source_line}"
            scope = self._scopes.get(name)
            if scope is None:
                scope = self._scopes[name] = cut_name(scope_of(name))
            known = self.known[serialized] = (name, scope, source)
        return known

    def _users_line(self, frame_id: int) -> str:
        """``file:line`` of the innermost frame outside installed packages, or else of the innermost frame."""
        known = self._sources.get(frame_id)
        if known is None:
            frames = list(self._frames_from(frame_id))
            users = (file for file in frames if not is_installed(file))
            known = self._sources[frame_id] = next(users, frames[0] if frames else "")
        return known

    def _frames_from(self, frame_id: int) -> Iterator[str]:
        """Each frame's ``file:line``, the innermost first; all identifiers count from 1, 0 is none."""
        frames, locations, files = (
            self._frames.stack_frames,
            self._frames.file_locations,
            self._frames.file_names,
        )
        for _ in range(MAX_FRAMES):
            if not 0 < frame_id <= len(frames):
                return
            frame = frames[frame_id - 1]
            if not 0 < frame.file_location_id <= len(locations):
                return
            location = locations[frame.file_location_id - 1]
            if not 0 < location.file_name_id <= len(files):
                return
            yield f"{str(files[location.file_name_id - 1], 'utf-8', 'replace')}:{location.line}"
            frame_id = frame.parent_frame_id
