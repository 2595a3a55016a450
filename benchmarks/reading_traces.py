"""How many events a second ``read_trace`` reads, statistics included, on one core, and what memory that takes.

Run ``python benchmarks/reading_traces.py``. The traces are made here, without JAX, event for event like those of
JAX 0.10: for the CPU, runs of a module with a loop, each operation with eight statistics and an event at its end; for
a GPU, kernels with seven statistics on two streams.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from typing import Any

from jaxobs.proto.xspace import EventMetadataEntryMessage, LineMessage, StatMessage, StatMetadataEntryMessage
from jaxobs.trace import read_trace

_OPERATIONS = 60
_RUNS_OF_LOOP = 10
_STATS = (
    "hlo_op", "hlo_module", "program_id", "run_id", "device_ordinal", "_src", "_pt", "_p", "_ct", "_c",
    "correlation_id", "kernel_details", "tf_op", "name",
)  # fmt: skip
_ID = {name: number + 1 for number, name in enumerate(_STATS)}
_TEXT = 200
_MODULE, _SOURCE = _TEXT - 1, _TEXT - 2


def _stat(name: str, **value: Any) -> bytes:
    serialized: bytes = StatMessage(metadata_id=_ID[name], **value).SerializeToString()
    return serialized


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def _space(plane: str, lines: list[Any], names: list[str]) -> bytes:
    texts = {number: name for name, number in _ID.items()}
    texts |= {_MODULE: "jit_step", _SOURCE: "thunk_executor.cc"}
    texts |= {_TEXT + at: name for at, name in enumerate(names[:_OPERATIONS])}
    parts = [_field(2, plane.encode())]
    parts += [_field(3, line.SerializeToString()) for line in lines]
    for at, name in enumerate(names):
        entry = EventMetadataEntryMessage(key=at + 1, value={"id": at + 1, "name": name.encode()})
        parts.append(_field(4, entry.SerializeToString()))
    for number, text in texts.items():
        entry = StatMetadataEntryMessage(key=number, value={"id": number, "name": text.encode()})
        parts.append(_field(5, entry.SerializeToString()))
    return _field(1, b"".join(parts))


def cpu_trace(events: int) -> bytes:
    """A serialized trace of one CPU device with about so many events."""
    line = LineMessage(name=b"tf_XLAPjRtCpuClient/1", timestamp_ns=1000)
    names = [f"fusion.{at}" for at in range(_OPERATIONS)]
    names += [f"end: {name}" for name in names]
    now = run = count = 0
    while count < events:
        run += 1
        for at in range(_OPERATIONS * _RUNS_OF_LOOP):
            count += 2
            operation, duration = at % _OPERATIONS, 1_000_000 + 977_000 * (at % 13)
            flow = 2**33 + count
            stats = [
                _stat("hlo_op", ref_value=_TEXT + operation),
                _stat("hlo_module", ref_value=_MODULE),
                _stat("program_id", uint64_value=4),
                _stat("run_id", int64_value=-1941444607 + run),
                _stat("device_ordinal", int64_value=0),
                _stat("_src", ref_value=_SOURCE),
                _stat("_pt", int64_value=0),
                _stat("_p", uint64_value=flow),
            ]
            line.events.add(metadata_id=operation + 1, offset_ps=now, duration_ps=duration, stats=stats)
            ending = [
                _stat("_ct", int64_value=0),
                _stat("_c", uint64_value=flow),
                _stat("_src", ref_value=_SOURCE),
            ]
            now += duration
            line.events.add(
                metadata_id=_OPERATIONS + operation + 1, offset_ps=now, duration_ps=300_000, stats=ending
            )
            now += 700_000
    return _space("/host:CPU", [line], names)


def gpu_trace(events: int) -> bytes:
    """A serialized trace of one GPU with about so many events."""
    lines = [LineMessage(name=b"Stream #%d(Kernel)" % number, timestamp_ns=1000) for number in (13, 14)]
    names = [f"fusion_{at}" for at in range(_OPERATIONS)]
    now = 0
    for count in range(events):
        operation, duration = count % _OPERATIONS, 2_000_000 + 977_000 * (count % 13)
        stats = [
            _stat("correlation_id", uint64_value=count),
            _stat("kernel_details", ref_value=_SOURCE),
            _stat("tf_op", ref_value=_MODULE),
            _stat("name", ref_value=_TEXT + operation),
            _stat("hlo_op", ref_value=_TEXT + operation),
            _stat("hlo_module", ref_value=_MODULE),
            _stat("program_id", int64_value=15),
        ]
        line = lines[operation % 7 == 0]  # some run beside others
        line.events.add(metadata_id=operation + 1, offset_ps=now, duration_ps=duration, stats=stats)
        now += duration - (500_000 if operation % 7 == 0 else -500_000)
    return _space("/device:GPU:0", lines, names)


def main() -> None:
    """Print the rate of some readings of each trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    for name, made in (("CPU", cpu_trace(arguments.events)), ("GPU", gpu_trace(arguments.events))):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rates = []
        for _ in range(arguments.repeat):
            start = time.process_time()
            events = read_trace(made).hosts[0].events
            rates.append(events / (time.process_time() - start))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        print(
            f"{name}: {events} events, {len(made) / 1e6:.1f} MB: median {statistics.median(rates):,.0f}, "
            f"least {min(rates):,.0f}, most {max(rates):,.0f} events/s of processor time; "
            f"{grown / 1e6:.0f} MB of memory beside the trace"
        )


if __name__ == "__main__":
    main()
