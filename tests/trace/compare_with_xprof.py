"""Each device's busy time and each operation's time beside XProf's own, on recorded traces: `make trace-peers`.

Run in an environment that has the package `xprof`; exit status 1 where a figure differs by more than 1 %. XProf sums
over devices, so each device is put into a trace of its own. Of a GPU it counts the operations that have an instruction,
so that its busy time is compared with theirs; kernels without one are compared by the kernels' times.
"""

import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path

from xprof.convert import raw_to_tool_data

from jaxobs.trace import read_trace
from jaxobs.trace.planes import PLANES, Plane, parts_of
from tests.trace.written import varint

TOLERANCE = 0.01
RECORDED = Path(__file__).parent / "data"


def one_device_each(data):
    """Serialized traces by device: its plane, and all planes of the host."""
    planes = [(Plane(part), part) for part in parts_of(memoryview(data), "a trace")[PLANES]]
    for plane, _ in planes:
        if plane.name.startswith("/device:") and plane.lines:
            kept = [part for other, part in planes if other is plane or not other.name.startswith("/device:")]
            yield plane.name, b"".join(b"\x0a" + varint(len(part)) + bytes(part) for part in kept)


def xprof(data, tool):
    """One of XProf's tools on a trace, in a folder of its own: it keeps its results beside the trace."""
    with tempfile.TemporaryDirectory() as folder, quiet():
        path = Path(folder) / "host.xplane.pb"
        path.write_bytes(data)
        found, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], tool, {})
    return json.loads(found)


@contextlib.contextmanager
def quiet():
    """Without the lines that XProf writes to standard error at every call."""
    kept = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def rows(table):
    names = [column["id"] for column in table["cols"]]
    return [dict(zip(names, (cell["v"] for cell in row["c"]), strict=True)) for row in table["rows"]]


def compare(data):
    """Pairs of (what, ours, XProf's), times in µs."""
    for name, alone in one_device_each(data):
        device = read_trace(alone).devices[0]
        theirs: dict[tuple[int | None, str], float] = {
            (int(row["program_id"]), row["hlo_op_name"]): row["total_self_time"]
            for row in rows(xprof(alone, "hlo_stats"))
        }
        ours = {
            (time.program_id, time.instruction): time.self_seconds * 1e6
            for time in device.operations
            if time.instruction is not None
        }
        assert ours.keys() == theirs.keys(), (ours.keys(), theirs.keys())
        for operation, time in ours.items():
            yield f"{name} {operation[1]}", time, theirs[operation]
        profile = xprof(alone, "op_profile")["byProgramExcludeIdle"]["metrics"]["rawTime"] / 1e6
        attributed = sum(time.charged_seconds for time in device.operations if time.instruction is not None)
        yield f"{name} busy with instructions", attributed * 1e6, profile
        kernels = sum(row["total_duration_us"] for row in rows(xprof(alone, "kernel_stats")))
        total = sum(
            time.self_seconds for time in device.operations if not time.name.startswith(("Copy", "Mem"))
        )  # copies by the engines are no kernels
        yield f"{name} all kernels", total * 1e6, kernels


def main():
    worst = 0.0
    for path in [Path(word) for word in sys.argv[1:]] or sorted(RECORDED.glob("*.xplane.pb")):
        for what, ours, theirs in compare(path.read_bytes()):
            difference = abs(ours - theirs) / max(ours, theirs, 1e-6)
            worst = max(worst, difference)
            print(f"{difference:8.4%}  {ours:12.3f} µs  XProf {theirs:12.3f} µs  {what}")
    print(f"largest difference {worst:.4%}, allowed {TOLERANCE:.0%}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
