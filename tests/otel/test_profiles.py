"""Device time by call path, as OTLP's own definitions read it back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceResponse,
)

from jaxobs.model.clock import now
from jaxobs.model.cost import Frame
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from jaxobs.roofline_model.call_tree import Part, call_tree
from jaxobs.roofline_model.operation_work import Work
from jaxobs_plugins.otel import environment as variables
from jaxobs_plugins.otel.profiles import CAPACITY, ProfileSignal
from tests.otel.job import Harness, Receiver, StandingAgent
from tests.sample_document import device_time
from tests.waiting import wait_for

PATH = "/v1development/profiles"

Samples = dict[tuple[str, ...], int]
"""By part of automatic differentiation and frames, the leaf first, the nanoseconds."""


@pytest.fixture
def sending(harness: Harness, receiver: Receiver, environment: pytest.MonkeyPatch) -> Harness:
    environment.setenv("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", receiver.endpoint + PATH)
    harness.start()
    return harness


def read(message: Any, of: str = "device_time") -> list[Samples]:
    """The samples of each window, which has a profile for each kind of value."""
    tables = message.dictionary
    texts = tables.string_table
    for name in ("mapping", "location", "function", "link", "attribute", "stack"):
        table = getattr(tables, f"{name}_table")
        assert not table[0].ByteSize(), "the first of each table is the empty one"
        assert len({item.SerializeToString() for item in table}) == len(table), "none twice"
    assert (texts[0], len(set(texts))) == ("", len(texts))

    def frame(location: int) -> str:
        (line,) = tables.location_table[location].lines
        function = tables.function_table[line.function_index]
        return f"{texts[function.name_strindex]} {texts[function.filename_strindex]}:{line.line}"

    windows: list[Samples] = []
    for profile in message.resource_profiles[0].scope_profiles[0].profiles:
        kind = profile.sample_type
        assert (texts[kind.type_strindex], texts[kind.unit_strindex]) == (of, "nanoseconds")
        found: Samples = {}
        for sample in profile.samples:
            stack = tables.stack_table[sample.stack_index].location_indices
            labels = [tables.attribute_table[index] for index in sample.attribute_indices]
            assert {texts[label.key_strindex] for label in labels} <= {"part"}
            part = labels[0].value.string_value if labels else ""
            (value,) = sample.values
            frames = (part, *(frame(location) for location in stack))
            assert value > 0
            assert frames not in found
            found[frames] = value
        windows.append(found)
    return windows


def profiles_of(message: Any) -> list[Any]:
    return list(message.resource_profiles[0].scope_profiles[0].profiles)


def kinds_of(message: Any) -> set[str]:
    """What the profiles of a message are of: `device_time`, `host_time`."""
    texts = message.dictionary.string_table
    return {texts[profile.sample_type.type_strindex] for profile in profiles_of(message)}


def test_each_window_is_a_profile_of_what_it_added(sending: Harness, receiver: Receiver) -> None:
    rows = device_time()["by_line"]
    sending.export()
    sending.export(device_time={"by_line": rows})
    sending.export(device_time={"by_line": [dict(row) for row in rows]})  # no window meanwhile
    grown = {"main.<locals>.step": 7.0, "attention": 7.0, "(backward)": 6.0}
    more = [row | {"seconds": grown.get(row["name"], row["seconds"])} for row in rows]
    more[2]["operations"] = [
        rows[2]["operations"][0] | {"seconds": 4.5},
        rows[2]["operations"][1] | {"name": "dot.8"},
    ]
    sending.export(device_time={"by_line": more})
    sending.stop(5.0)
    (request,) = receiver.accepted(PATH)
    first, second = read(request.message)
    called = ("attention /home/ada/model.py:118", "main.<locals>.step /home/ada/model.py:201")
    assert first == {
        ("forward", *called): 1_000_000_000, ("backward", "dot.7 :0", *called): 1_500_000_000,
        ("backward", "fusion.3 :0", *called): 500_000_000, ("", "copy.1 :0", "(no source line) :0"): 1_000_000_000,
    }  # fmt: skip
    assert second == {("backward", "dot.7 :0", *called): 3_000_000_000, ("backward", *called): 1_000_000_000}
    of = request.message.resource_profiles[0]
    assert {item.key: item.value.WhichOneof("value") for item in of.resource.attributes} == {
        "service.name": "string_value", "process.pid": "int_value",
    }  # fmt: skip
    assert of.scope_profiles[0].scope.name == "jaxobs"
    one, other = profiles_of(request.message)
    assert one.time_unix_nano + one.duration_nano == other.time_unix_nano
    assert len({one.profile_id, other.profile_id, bytes(16)}) == 3


def row(depth: int, name: str, line: int, seconds: float) -> dict[str, Any]:
    file = "/home/ada/model.py" if line else ""
    return {
        "depth": depth,
        "name": name,
        "file": file,
        "line": line,
        "seconds": seconds,
        "flops": None,
        "bytes": None,
    }


def test_a_line_that_is_seen_to_call_others_later_has_what_it_added_itself(
    sending: Harness, receiver: Receiver
) -> None:
    sending.export(device_time={"by_line": [row(0, "step", 7, 3.0)]})
    calling = [row(0, "step", 7, 5.0), row(1, "(itself)", 0, 3.5), row(1, "layer", 3, 1.5)]
    sending.export(device_time={"by_line": calling})
    sending.stop(5.0)
    (request,) = receiver.accepted(PATH)
    step = "step /home/ada/model.py:7"
    assert read(request.message)[1] == {
        ("", step): 500_000_000, ("", "layer /home/ada/model.py:3", step): 1_500_000_000,
    }  # fmt: skip


operations = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 50)), min_size=1, max_size=25
)


@given(windows=st.lists(operations, min_size=1, max_size=5), limit=st.integers(1, 12))
def test_each_window_adds_up_whatever_is_told_with_others(
    windows: list[list[tuple[int, int, int]]], limit: int
) -> None:
    """A tree has so many paths at most: the small ones are below `(other)`, and which these are changes."""
    agent = StandingAgent(pid=41)
    signal = ProfileSignal(agent)
    parts: list[Part] = []
    for number, window in enumerate(windows):
        for caller, line, quarters in window:
            path = (Frame("step", "a.py", caller), Frame("layer", "a.py", line))[: 1 + line % 2]
            parts.append(Part(path, "compute", Work(seconds=quarters / 4), f"dot.{quarters % 5}"))
        rows = [
            row(node.depth, node.frame.function, node.frame.line, node.work.seconds)
            | {
                "operations": [
                    {"name": part.operation, "seconds": part.work.seconds} for part in node.operations
                ]
            }
            for node in call_tree(parts, limit)
        ]
        document = {"device_time": {"by_line": rows}}
        assert signal.offer(Batch(SnapshotData(number, document, ()), (), ())) == 0
    sent = read(signal.encode(signal.take()))
    assert [sum(window.values()) / 1e9 for window in sent] == [
        sum(quarters for *_, quarters in window) / 4 for window in windows
    ]


def test_the_main_threads_samples_are_a_profile_every_ten_seconds() -> None:
    signal = ProfileSignal(StandingAgent(pid=41))
    began = now()
    for tenths in range(0, 300, 7):
        seconds = tenths / 10
        calls = [
            row(0, "main", 8, seconds),
            row(1, "(itself)", 0, seconds / 4),
            row(1, "load", 3, seconds * 3 / 4),
        ]
        snapshot = SnapshotData(began + tenths * 10**8, {"loops": {"train": {"host_calls": calls}}}, ())
        assert signal.offer(Batch(snapshot, (), ())) == 0
    message = signal.encode(signal.take())
    main, loop = "main /home/ada/model.py:8", "loop train :0"
    for found in (windows := read(message, "host_time")):
        assert found == {
            ("", main, loop): 2_625_000_000, ("", "load /home/ada/model.py:3", main, loop): 7_875_000_000,
        }  # fmt: skip
    assert [one.duration_nano for one in profiles_of(message)[1:]] == [10_500_000_000] * (len(windows) - 1)
    assert len(windows) == 2


def test_what_the_main_thread_did_last_is_a_profile_when_the_job_ends() -> None:
    signal = ProfileSignal(StandingAgent(pid=41))
    began = now()
    for tenths, ended in ((10, None), (30, "ended")):
        loops = {"train": {"host_calls": [row(0, "main", 8, tenths / 10)]}}
        document = {"loops": loops, "process": {"ended": ended}}
        assert signal.offer(Batch(SnapshotData(began + tenths * 10**8, document, ()), (), ())) == 0
    (found,) = read(signal.encode(signal.take()), "host_time")
    assert found == {("", "main /home/ada/model.py:8", "loop train :0"): 3_000_000_000}


def test_profiles_that_a_receiver_refuses_or_rejects_are_counted(
    sending: Harness, receiver: Receiver
) -> None:
    receiver.answer = lambda path, message: (404, {}, b"")
    sending.export(device_time=device_time())
    sending.stop(5.0)
    assert sending.agent.dropped("profiles") == 1
    assert "404" in sending.failures[-1]
    answer = ExportProfilesServiceResponse()
    answer.partial_success.rejected_profiles = 1
    assert ProfileSignal(sending.agent).rejected(answer.SerializeToString()) == (1, "")


def test_a_profile_that_is_sent_again_has_its_id(sending: Harness, receiver: Receiver) -> None:
    answers = [503, 200]
    receiver.answer = lambda path, message: (answers.pop(0), {}, b"")
    sending.export(device_time=device_time())
    wait_for(lambda: len(receiver.requests) == 2, "a second attempt")
    one, other = (profiles_of(request.message)[0].profile_id for request in receiver.requests)
    assert one == other


def test_the_oldest_are_dropped_where_too_many_wait() -> None:
    signal = ProfileSignal(StandingAgent(pid=41))
    documents = [{"device_time": {"by_line": [row(0, "step", 7, float(n))]}} for n in range(1, CAPACITY + 3)]
    dropped = [signal.offer(Batch(SnapshotData(n, one, ()), (), ())) for n, one in enumerate(documents)]
    assert (sum(dropped), signal.waiting()) == (2, CAPACITY)


def test_the_end_is_waited_for_though_no_profile_was_sent(
    sending: Harness, receiver: Receiver, environment: pytest.MonkeyPatch
) -> None:
    """Profiles are seldom. Without another signal there is nothing but them to wait for."""
    assert sending.exporter.delivery().worth_waiting_for


def test_the_common_endpoint_gets_no_profiles(
    harness: Harness, receiver: Receiver, environment: pytest.MonkeyPatch
) -> None:
    """Few receivers take them yet; one that does not would refuse them for as long as the job lasts."""
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
    harness.start()
    harness.export(device_time=device_time())
    harness.stop(5.0)
    assert not receiver.accepted(PATH)
    assert not harness.failures


def test_an_older_form_of_profiles_is_said_and_the_rest_is_sent(
    harness: Harness, receiver: Receiver, environment: pytest.MonkeyPatch
) -> None:
    environment.setattr(variables, "PROFILES_SINCE", [9, 0])
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
    environment.setenv("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", receiver.endpoint + PATH)
    harness.start()
    harness.export(device_time=device_time())
    harness.stop(5.0)
    assert not receiver.accepted(PATH)
    assert any("profiles are not sent: opentelemetry-proto" in line for line in harness.agent.lines)
