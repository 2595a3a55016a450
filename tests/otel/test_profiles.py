"""Device time by call path, as OTLP's own definitions read it back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from jaxobs_plugins.otel import environment as variables
from tests.otel.job import Harness, Receiver
from tests.sample_document import device_time

PATH = "/v1development/profiles"

Samples = dict[str, dict[tuple[str, ...], int]]
"""By kind of value: by part of automatic differentiation and frames, the leaf first, the value."""


@pytest.fixture
def sending(harness: Harness, receiver: Receiver, environment: pytest.MonkeyPatch) -> Harness:
    environment.setenv("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", receiver.endpoint + PATH)
    harness.start()
    return harness


def read(message: Any) -> list[Samples]:
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
        kind = f"{texts[profile.sample_type.type_strindex]} {texts[profile.sample_type.unit_strindex]}"
        if not windows or kind in windows[-1]:
            windows.append({})
        assert len(profile.profile_id) == 16
        found = windows[-1].setdefault(kind, {})
        for sample in profile.samples:
            stack = tables.stack_table[sample.stack_index].location_indices
            labels = [tables.attribute_table[index] for index in sample.attribute_indices]
            assert {texts[label.key_strindex] for label in labels} <= {"part"}
            part = labels[0].value.string_value if labels else ""
            (value,) = sample.values
            frames = (part, *(frame(location) for location in stack))
            found[frames] = value
    return windows


def test_each_window_is_a_profile_of_what_it_added(sending: Harness, receiver: Receiver) -> None:
    rows = device_time()["by_line"]
    sending.export()
    sending.export(device_time={"by_line": rows})
    sending.export(device_time={"by_line": [dict(row) for row in rows]})  # no window meanwhile
    grown = {"main.<locals>.step": 7.0, "attention": 7.0, "(backward)": 6.0}
    more = [row | {"seconds": grown.get(row["name"], row["seconds"])} for row in rows]
    sending.export(device_time={"by_line": more})
    sending.stop(5.0)
    (request,) = receiver.accepted(PATH)
    first, second = read(request.message)
    called = ("attention /home/ada/model.py:118", "main.<locals>.step /home/ada/model.py:201")
    times = first["device_time nanoseconds"]
    assert times[("forward", *called)] == 1_000_000_000
    assert times[("backward", *called)] == 2_000_000_000
    assert sum(times.values()) == 1e9 * sum(row["seconds"] for row in rows if not row["depth"])
    assert set(first["flops count"]) < set(times), "what is not known of FLOPs is left out"
    assert second == {
        "device_time nanoseconds": {("backward", *called): 4_000_000_000},
        "flops count": {},
        "bytes bytes": {},
    }
    of = request.message.resource_profiles[0]
    assert {item.key: item.value.WhichOneof("value") for item in of.resource.attributes} == {
        "service.name": "string_value", "process.pid": "int_value",
    }  # fmt: skip
    assert of.scope_profiles[0].scope.name == "jaxobs"
    one, *_, last = of.scope_profiles[0].profiles
    assert one.time_unix_nano + one.duration_nano == last.time_unix_nano


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


def test_all_windows_add_up_where_a_line_calls_others_later_or_is_told_with_others(
    sending: Harness, receiver: Receiver
) -> None:
    """A tree has so many paths at most: the small ones are below `(other)`, and which these are may change."""
    alone = [row(0, "step", 7, 3.0), row(0, "small", 9, 0.25)]
    calling = [
        row(0, "step", 7, 5.0), row(1, "(itself)", 0, 3.5), row(1, "layer", 3, 1.5),
        row(0, "(other)", 0, 0.5),
    ]  # fmt: skip
    sending.export(device_time={"by_line": alone})
    sending.export(device_time={"by_line": calling})
    sending.stop(5.0)
    (request,) = receiver.accepted(PATH)
    whole: Counter[tuple[str, ...]] = Counter()
    for window in read(request.message):
        whole.update(window["device_time nanoseconds"])
    step = "step /home/ada/model.py:7"
    assert {frames: value / 1e9 for frames, value in whole.items() if value} == {
        ("", step): 3.5, ("", "layer /home/ada/model.py:3", step): 1.5, ("", "(other) :0"): 0.5,
    }  # fmt: skip


def test_profiles_that_a_receiver_rejects_are_counted(sending: Harness, receiver: Receiver) -> None:
    receiver.answer = lambda path, message: (404, {}, b"")
    sending.export(device_time=device_time())
    sending.stop(5.0)
    assert sending.agent.dropped("profiles") == 3
    assert "404" in sending.failures[-1]


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
