"""Frames on the pipe: every event arrives as it was, what cannot travel is refused, other bytes are an error."""

import types
import typing
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.flow import wire
from jaxobs.model import events as model
from jaxobs.model.events import (
    EVENT_TYPES,
    ExecutableCreated,
    Measured,
    ProfileWindow,
    SpanContext,
)

ATTRIBUTE = st.one_of(st.text(max_size=20), st.integers(), st.floats(allow_nan=False), st.booleans())
SPAN_CONTEXT = st.builds(
    SpanContext, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255)
)


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Any value that a field of this type can have."""
    if annotation is SpanContext:
        return SPAN_CONTEXT
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*map(values, arguments))
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values(arguments[0]), max_size=4).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, arguments))
    return {
        int: st.integers(-(2**70), 2**70),
        float: st.floats(allow_nan=False),
        # With lone surrogates: a path of the user's may hold them.
        str: st.text(st.characters(codec=None, categories=None), max_size=20),
        bool: st.booleans(),
        bytes: st.binary(max_size=50),
        type(None): st.none(),
    }[annotation]


def an_event(event_type: Any) -> st.SearchStrategy[Any]:
    fields = typing.get_type_hints(event_type, vars(model))
    return st.builds(event_type, **{name: values(fields[name]) for name in event_type._fields})


def arrived(data: bytes, size: int = 1 << 16) -> list[Any]:
    frames = wire.Frames()
    found: list[Any] = []
    for start in range(0, len(data), size):
        for kind, body in frames.feed(data[start : start + size]):
            assert kind == wire.EVENTS
            found += wire.events_of(body)
    return found


@pytest.mark.parametrize("event_type", EVENT_TYPES, ids=lambda event_type: event_type.__name__)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_an_event_of_each_type_arrives_as_it_was_sent(event_type: type, data: st.DataObject) -> None:
    sent = data.draw(an_event(event_type))
    encoded, refused = wire.events_frame([sent])
    (received,) = arrived(encoded)
    assert refused == 0
    assert received == sent
    assert type(received) is event_type
    parent = getattr(received, "parent", None)
    assert parent is None or type(parent) is SpanContext


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.one_of([an_event(event_type) for event_type in EVENT_TYPES]), max_size=8), st.integers(1, 99)
)
def test_frames_are_put_together_from_pieces_of_any_size(sent: list[Any], size: int) -> None:
    encoded = b"".join(wire.events_frame([event])[0] for event in sent)
    assert arrived(encoded, size) == sent


@pytest.mark.parametrize("value", [object(), len, int, 1j], ids=lambda value: type(value).__name__)
def test_a_value_that_is_no_plain_one_is_refused_and_the_others_arrive(value: Any) -> None:
    sound = [Measured("m", ("a",), 1.0, 1), Measured("m", ("b",), 2.0, 2)]
    encoded, refused = wire.events_frame([sound[0], Measured("m", (), value, 0), sound[1]])
    assert (arrived(encoded), refused) == (sound, 1)


def test_numbers_of_other_types_arrive_as_plain_ones() -> None:
    sent = [Measured("m", (), numpy.float64(1.5), 1), Measured("m", (), 2, 2), Measured("m", (), True, 3)]
    received = arrived(wire.events_frame(sent)[0])
    assert [(type(event.value), event.value) for event in received] == [
        (float, 1.5),
        (float, 2.0),
        (float, 1.0),
    ]


def test_what_is_no_event_is_refused() -> None:
    sound = Measured("m", (), 1.0, 1)
    foreign: list[Any] = [("a", 1), (), (2,), (99, 1), "text", None, SpanContext(1, 2, 3), sound]
    encoded, refused = wire.events_frame(foreign)
    assert (arrived(encoded), refused) == ([sound], 7)


@settings(max_examples=100, deadline=None)
@given(st.lists(an_event(Measured), min_size=1, max_size=3), st.integers(0, 10_000))
def test_a_truncated_frame_waits_for_the_rest_and_its_cut_body_is_a_wire_error(
    sent: list[Any], cut: int
) -> None:
    encoded = wire.events_frame(sent)[0]
    cut %= len(encoded)
    assert arrived(encoded[:cut]) == []
    body = encoded[5 : max(5, cut)]
    with pytest.raises(wire.WireError, match="does not decode"):
        arrived(wire.EVENTS + len(body).to_bytes(4, "big") + body)


@pytest.mark.parametrize("body", [b"?", b"\xff" * 20, b"\x00", b"i\x01"])
def test_bytes_that_are_no_body_are_a_wire_error(body: bytes) -> None:
    with pytest.raises(wire.WireError, match="does not decode"):
        arrived(wire.EVENTS + len(body).to_bytes(4, "big") + body)


def test_a_length_beyond_the_limit_is_a_wire_error_before_anything_is_kept() -> None:
    with pytest.raises(wire.WireError, match="more than"):
        list(wire.Frames().feed(b"E\xff\xff\xff\xff"))


@pytest.mark.parametrize(
    "content", [5, "text", [5], [(99, 1)], [(0,)], [("a", 1)], [(0, 1, 2)], {1: 2}, None]
)
def test_a_body_that_is_no_list_of_events_is_a_wire_error(content: Any) -> None:
    with pytest.raises(wire.WireError, match="events"):
        arrived(wire.frame(wire.EVENTS, content))


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=4), st.integers(1, 300))
def test_traces_travel_raw_before_their_events_which_keep_their_order(traces: list[bytes], size: int) -> None:
    windows = [ProfileWindow("requested", "read", 1, 2, 3, trace, "", "") for trace in traces]
    sent = [ProfileWindow("scheduled", "empty", 0, 0, 0, None, "", "nothing"), *windows]
    told, pieces = wire.payloads_apart(sent)
    data = b"".join([*pieces, wire.events_frame(told)[0]])
    frames = wire.Frames()
    arrived = [found for at in range(0, len(data), size) for found in frames.feed(data[at : at + size])]
    assert arrived[:-1] == [(wire.PAYLOAD, trace) for trace in traces]
    kind, body = arrived[-1]
    assert kind == wire.EVENTS
    assert list(wire.events_of(body)) == [sent[0], *(window._replace(xspace=b"") for window in windows)]
    assert all(piece is trace for piece, trace in zip(pieces[1::2], traces, strict=True))  # not a copy of it


def created(proto: bytes, function: Any = "f") -> ExecutableCreated:
    return ExecutableCreated(1, function, 2, proto, "", (), 1)


@given(st.lists(st.binary(max_size=200), max_size=4), st.integers(1, 300))
def test_modules_travel_raw_as_traces_do(modules: list[bytes], size: int) -> None:
    told, pieces = wire.payloads_apart([created(module) for module in modules])
    data = b"".join([*pieces, wire.events_frame(told)[0]])
    frames = wire.Frames()
    arrived = [found for at in range(0, len(data), size) for found in frames.feed(data[at : at + size])]
    assert arrived[:-1] == [(wire.PAYLOAD, module) for module in modules]
    assert list(wire.events_of(arrived[-1][1])) == [created(b"") for _ in modules]


def test_an_event_that_cannot_travel_leaves_no_payload_for_the_next() -> None:
    told, pieces = wire.payloads_apart([created(b"first", object()), created(b"second")])
    assert pieces[1:] == [b"second"]
    assert wire.events_frame(told)[1] == 1
