"""Wrong bytes end in one clear error, whatever is wrong with them, and large ones are refused."""

import gzip
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.model.trace import DeviceTrace
from jaxobs.trace import TraceError, read_trace


def read_or_refuse(data):
    """The only two outcomes: finite figures that add up, or the documented error with a message."""
    devices: tuple[DeviceTrace, ...] = ()
    reason = ""
    try:
        devices = read_trace(data).devices
    except TraceError as refusal:
        reason = str(refusal)
    else:
        reason = "read"
    assert reason
    for device in devices:
        charged = sum(time.charged_seconds for time in device.operations)
        assert math.isclose(charged, device.busy_seconds, rel_tol=1e-6, abs_tol=1e-9)
        assert 0 <= device.busy_seconds <= device.span_seconds * (1 + 1e-6) + 1e-9


def test_the_error_is_a_value_error():
    assert issubclass(TraceError, ValueError)


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"\x00" * 40, b"\xff" * 100, b'{"traceEvents": []}', b"\x0a\x00"]
)
def test_foreign_bytes_are_refused(data):
    with pytest.raises(TraceError, match=r"truncated|corrupted|is empty|no plane of a profiler"):
        read_trace(data)


def test_a_compressed_trace_is_refused_with_what_to_do(recorded_bytes):
    with pytest.raises(TraceError, match="gunzip"):
        read_trace(gzip.compress(recorded_bytes))


def test_a_large_trace_is_refused_before_it_is_read(recorded_bytes, tmp_path):
    size = len(recorded_bytes)
    with pytest.raises(TraceError, match=f"{size} bytes is more than the limit of {size - 1}"):
        read_trace(recorded_bytes, maximum_bytes=size - 1)
    huge = tmp_path / "huge.xplane.pb"
    with huge.open("wb") as file:
        file.truncate(2**30)  # one gibibyte, of which none is on the disk
    with pytest.raises(TraceError, match="raise the limit"):
        read_trace(huge)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_never_raise_anything_else(data):
    read_or_refuse(data)


@settings(max_examples=200, deadline=None)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_truncated_trace_is_refused(recorded_bytes, cut):
    length = int(len(recorded_bytes) * cut)
    if length > 2:
        read_or_refuse(recorded_bytes[:length])
    else:
        with pytest.raises(TraceError):
            read_trace(recorded_bytes[:length])


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_corrupted_bytes_never_raise_anything_else(recorded_bytes, data):
    corrupted = bytearray(recorded_bytes)
    for _ in range(data.draw(st.integers(1, 8))):
        corrupted[data.draw(st.integers(0, len(corrupted) - 1))] = data.draw(st.integers(0, 255))
    read_or_refuse(bytes(corrupted))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_corrupted_events_never_raise_anything_else(small_trace, data):
    """In a small trace nearly every byte is part of a time, a statistic or a name."""
    corrupted = bytearray(small_trace)
    for _ in range(data.draw(st.integers(1, 4))):
        corrupted[data.draw(st.integers(0, len(corrupted) - 1))] = data.draw(st.integers(0, 255))
    read_or_refuse(bytes(corrupted))


@pytest.fixture(scope="module")
def small_trace():
    from tests.trace.written import WrittenPlane, modules, space

    stats = {
        "hlo_op": "while.1",
        "hlo_module": "jit_f",
        "program_id": 3,
        "run_id": 1,
        "device_ordinal": 0,
        "_p": 9,
    }
    host = WrittenPlane("/host:CPU").line(
        "tf_XLA/1",
        [
            ("ThreadpoolListener::StartRegion", 0, 0, {"_c": 1}),
            ("while.1", 1, 50, stats),
            ("fusion", 2, 10, stats | {"hlo_op": "fusion", "_p": 10}),
            ("end: fusion", 20, 0, {"_c": 10}),
            ("train", 0, 60, {"step_num": 1, "_r": 1}),
        ],
    )
    gpu = WrittenPlane("/device:GPU:0", memory_bandwidth=10**12).line(
        "Stream #1", [("k", 0, 5, {"hlo_op": "fusion", "program_id": 3, "correlation_id": 1})]
    )
    tpu = WrittenPlane("/device:TPU:0").line("XLA Ops", [("%add.1 = f32[] add()", 0, 5, {})])
    return space(modules(jit_f=(3, {"while.1": "while"}, {"fusion": "fusion"})), host, gpu, tpu)


def test_the_small_trace_is_read_whole(small_trace):
    assert [device.platform for device in read_trace(small_trace).devices] == ["cpu", "gpu", "tpu"]
