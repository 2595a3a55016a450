"""Operations of a GPU's trace as the check on GPUs compares them: jaxobs's reader beside JAX's own."""

from __future__ import annotations

from pathlib import Path

import jax
import pytest

from benchmarks.gpu_check.checks import traces
from benchmarks.gpu_check.place import Place
from tests.trace.written import WrittenPlane, modules, space


def kernel(operation: str, correlation: int) -> dict[str, object]:
    return {
        "correlation_id": correlation, "hlo_op": operation, "hlo_module": "jit_step", "program_id": 3,
        "kernel_details": "regs:32",
    }  # fmt: skip


@pytest.mark.skipif(
    getattr(jax.profiler, "ProfileData", None) is None, reason="JAX reads traces itself since 0.7"
)
def test_both_readers_agree_on_kernels_copies_and_command_buffers(tmp_path: Path) -> None:
    device = WrittenPlane("/device:GPU:0", device_vendor="Nvidia", gpu_device_name="NVIDIA H200")
    copy = {"correlation_id": 4, "memcpy_details": "kind_src:device kind_dst:pinned size:4096 dest:0 async:1"}
    device.line(
        "Stream #1(Kernel,MemcpyD2H)",
        [
            ("k1", 0, 10, kernel("fusion", 1)),
            ("k2", 20, 30, kernel("dot.1", 2)),
            ("k1", 60, 12, kernel("fusion", 3)),
            ("MemcpyD2H", 80, 5, copy),
            ("CudaGraph", 90, 50, {"correlation_id": 5, "cuda_graph_exec_id": 7}),
        ],
    )
    device.line("XLA Ops", [("fusion", 0, 10, kernel("fusion", 1))])  # derived from the streams
    host = WrittenPlane("/host:CPU")
    launch = {"hlo_op": "fusion", "hlo_module": "jit_step", "correlation_id": 1}
    host.line("thread", [("cuLaunchKernel", 0, 500, launch)])
    known = modules(jit_step=(3, {"fusion": "fusion", "dot.1": "dot"}, {}))
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(known, device, host))

    figures = {figure.name: figure for figure in traces.judge(Place(tmp_path, "gpu", "NVIDIA H200"), path)}
    unmodelled = figures.pop("unmodelled share of the trace")
    assert unmodelled.verdict == "WRONG"  # these modules have names and no instructions
    assert figures["operation fusion of jit_step"].found == pytest.approx(22e-6)
    assert figures["operations of the trace, all together"].truth == pytest.approx(107e-6)
    assert {figure.verdict for figure in figures.values()} == {"right"}
