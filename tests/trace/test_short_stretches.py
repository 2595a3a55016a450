"""A trace is read in short stretches: who must not keep a core may sleep between them."""

from __future__ import annotations

import sys
from typing import Any

from written import WrittenPlane, modules, space

from jaxobs.trace import read_trace

FUNCTION_CALLS = 5_000
"""Of Python and of C. One takes 0.1 µs or so, so that this many take less than a millisecond."""


def test_between_is_called_every_few_function_calls_from_beginning_to_end() -> None:
    stats = {"hlo_module": "jit_f", "program_id": 3, "run_id": 1, "device_ordinal": 0}
    names = [f"fusion.{number}" for number in range(3_000)]
    host = WrittenPlane("/host:CPU")
    gpu = WrittenPlane("/device:GPU:0")
    for thread in range(2):
        spans = [
            (name, 2 * at + thread, 3, stats | {"hlo_op": name, "_p": at}) for at, name in enumerate(names)
        ]
        ends = [(f"end: {name}", 2 * at + thread + 2, 0, {"_c": at}) for at, name in enumerate(names)]
        host.line(f"tf_XLA/{thread}", spans + ends)
        kernels = [(name, at, 2, {"hlo_op": name, "program_id": 3}) for at, name in enumerate(names)]
        gpu.line(f"Stream #{thread}", kernels)
    trace = space(modules(jit_f=(3, dict.fromkeys(names, "fusion"), {})), host, gpu)
    stretches = [0]

    def counted(frame: Any, event: str, arg: Any) -> None:
        stretches[-1] += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        found = read_trace(trace, stretches={"train": [(0.0, 1.0)]}, between=lambda: stretches.append(0))
    finally:
        sys.setprofile(before)
    assert found == read_trace(trace, stretches={"train": [(0.0, 1.0)]})
    assert sum(device.operations[0].count > 0 for device in found.devices) == 2
    assert sum(stretches) > 20 * FUNCTION_CALLS
    assert max(stretches) < FUNCTION_CALLS
