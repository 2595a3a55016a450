"""Where fields begin and end: as the library that wrote them sees it, and an error where it sees none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.proto.messages import InstructionMessage
from jaxobs.proto.wire_format import LENGTH, FieldError, fields

MESSAGES = st.builds(
    InstructionMessage,
    name=st.binary(max_size=300),
    opcode=st.binary(max_size=5),
    id=st.integers(-(2**63), 2**63 - 1),
    operand_ids=st.lists(st.integers(0, 2**40), max_size=5),
    is_host_transfer=st.booleans(),
)


@given(MESSAGES)
def test_fields_follow_each_other_and_each_decodes_by_itself(message: InstructionMessage) -> None:
    serialized = message.SerializeToString()
    view, merged, reach = memoryview(serialized), InstructionMessage(), 0
    for key, start, content, end in fields(view):
        assert start == reach < content <= end
        reach = end
        alone = InstructionMessage.FromString(bytes(view[start:end]))
        ((descriptor, value),) = alone.ListFields()
        assert descriptor.number == key >> 3
        if key & 7 == LENGTH and isinstance(value, bytes):
            assert bytes(view[content:end]) == value
        merged.MergeFrom(alone)
    assert reach == len(serialized)
    assert merged == message


@given(MESSAGES, st.data())
def test_a_cut_inside_a_field_is_an_error_that_says_where_it_begins(
    message: InstructionMessage, data: st.DataObject
) -> None:
    serialized = message.SerializeToString()
    starts = [start for _, start, _, _ in fields(memoryview(serialized))]
    cut = data.draw(st.integers(0, len(serialized)))
    begun = [start for start in starts if start < cut]
    if cut in {*starts, len(serialized)}:
        assert len(list(fields(memoryview(serialized[:cut])))) == len(begun)
        return
    with pytest.raises(FieldError, match=r"truncated|corrupted"):
        list(fields(memoryview(serialized[:cut])))


@pytest.mark.parametrize(
    "data", [b"\x0b", b"\x0c\x00", b"\xff" * 20, b"\x0a", b"\x0a\x80", b"\x0d\x00", b"\x09\x00"]
)
def test_what_is_no_field_is_an_error(data: bytes) -> None:
    with pytest.raises(FieldError):
        list(fields(memoryview(data)))
