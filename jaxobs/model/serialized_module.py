"""A serialized module in parts that are each decoded in a moment.

Decoding ten megabytes is one call of a library, and takes tens of milliseconds in which the thread does nothing else. So
only where fields begin and end is found here, and each part is given to the library by itself. It alone decides what is
an error: where a boundary cannot be told, all that follows is one part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jaxobs.model.pacing import paced
from jaxobs.model.serialized_fields import LENGTH, FieldError, fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxobs.model.pacing import Between
    from jaxobs.model.serialized_fields import Field

PART_BYTES: Final = 32 * 2**10
"""Decoding so many bytes takes about 0.1 ms (measured)."""

_COMPUTATIONS: Final = 3 << 3 | LENGTH
_STACK_FRAMES: Final = 17 << 3 | LENGTH
_INSTRUCTIONS: Final = 2 << 3 | LENGTH
_UNKNOWN: Final = 0


class ParsedComputation:
    """A computation's own fields, and its instructions in the messages that they were decoded with."""

    __slots__ = ("message", "parts")

    def __init__(self, message: Any, parts: list[Any]) -> None:
        self.message = message
        self.parts = parts

    def __len__(self) -> int:
        return sum(len(part.instructions) for part in self.parts)

    def instructions(self, between: Between) -> Iterator[Any]:
        for part in self.parts:
            yield from paced(part.instructions, between)

    def instructions_back(self, between: Between) -> Iterator[Any]:
        """From the last to the first."""
        for part in reversed(self.parts):
            yield from paced(part.instructions[::-1], between)


def parse(
    serialized: memoryview, module_message: Any, computation_message: Any, between: Between
) -> tuple[Any, list[ParsedComputation]]:
    """The own fields of an ``HloModuleProto``, and its computations.

    The message classes have those fields of openxla/xla, ``xla/service/hlo.proto``, that their users need. Raises
    ``google.protobuf.message.DecodeError`` where decoding all bytes at once would.
    """
    message = module_message()
    computations: list[ParsedComputation] = []
    for key, start, content, end in _parts(serialized, between):
        if key == _COMPUTATIONS and end - start > PART_BYTES:
            computations.append(_parse_computation(serialized[content:end], computation_message, between))
        elif key == _COMPUTATIONS:
            several = module_message.FromString(bytes(serialized[start:end]))
            computations += [ParsedComputation(whole, [whole]) for whole in several.computations]
        elif key == _STACK_FRAMES and end - start > PART_BYTES and hasattr(message, "stack_frame_index"):
            frames = serialized[content:end]
            for _, first, _, last in _parts(frames, between):
                message.stack_frame_index.MergeFromString(bytes(frames[first:last]))
        else:
            message.MergeFromString(bytes(serialized[start:end]))
    # Those in a part whose boundaries cannot be told, which is the last.
    computations += [ParsedComputation(whole, [whole]) for whole in message.computations]
    return message, computations


def _parse_computation(
    serialized: memoryview, computation_message: Any, between: Between
) -> ParsedComputation:
    own = computation_message()
    parts = []
    for key, start, _, end in _parts(serialized, between):
        if key == _INSTRUCTIONS:
            parts.append(computation_message.FromString(bytes(serialized[start:end])))
        else:
            own.MergeFromString(bytes(serialized[start:end]))
    return ParsedComputation(own, [*parts, own] if own.instructions else parts)


def _parts(data: memoryview, between: Between) -> Iterator[Field]:
    """Fields of one key that follow each other, as if they were one: together up to PART_BYTES, or one that is larger."""
    key = start = content = end = 0
    try:
        for field_key, field_start, field_content, field_end in fields(data):
            if field_key != key or field_end - start > PART_BYTES:
                if end > start:
                    between()
                    yield key, start, content, end
                key, start = field_key, field_start
            content, end = field_content, field_end
    except FieldError as error:
        yield key, start, content, end
        yield _UNKNOWN, error.start, error.start, len(data)
    else:
        between()
        yield key, start, content, end
