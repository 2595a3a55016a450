"""What executables hold at their peak reaches the snapshot: from the compile, or from a profiler window of a GPU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.agent.analysis import Analysis, ModuleDone, _Modules
from jaxobs.cost_model import module_cost
from jaxobs.derive.executables.registry import PEAKS_SHOWN, Executables
from jaxobs.jax_compat.memory import memory_of
from jaxobs.model.events import ExecutableCreated
from jaxobs.model.peak_memory import NOT_GIVEN
from jaxobs.roofline_model.traced import ProfiledModule
from jaxobs.trace import read_trace

TRACE = Path(__file__).parents[1] / "trace" / "data" / "mi300x_8gpu_conv3d.xplane.pb"


@pytest.fixture(scope="module")
def compiled() -> tuple[bytes, tuple[tuple[str, int], ...], bytes]:
    """A module, the sums of its memory, and its buffer assignment."""
    executable = jax.jit(lambda x: jnp.sort(x @ x)).lower(jnp.ones((64, 64))).compile().runtime_executable()
    return executable.hlo_modules()[0].as_serialized_hlo_module_proto(), *memory_of(executable)


def analysed(*submitted: tuple[Any, ...]) -> list[Any]:
    """What the agent's worker makes of these modules, one after the other."""
    analysis = Analysis(print, lambda: None)
    found = []
    try:
        for each in submitted:
            analysis.submit(*each)
            (done,) = analysis.settle(60)
            assert isinstance(done, ModuleDone)
            found.append(done.module)
    finally:
        analysis.stop()
    return found


def created(memory: tuple[tuple[str, int], ...]) -> ExecutableCreated:
    return ExecutableCreated(1, "step", 0, b"", "", memory, 1)


def test_the_agent_reads_the_assignment_of_a_module_that_it_knew_without(compiled: Any) -> None:
    module, sums, buffers = compiled
    without, given, again = analysed((1, module), (2, module, buffers), (3, module))
    assert (without.memory, without.memory_reason) == (None, NOT_GIVEN)
    assert given.memory.differs(dict(sums)) == ""
    assert again is given  # and does not decode it a third time


def test_a_module_that_is_read_twice_takes_the_room_of_one(compiled: Any) -> None:
    module, _, buffers = compiled
    known = _Modules()
    for given in (b"", buffers):
        known.cost(module, given)
    assert len(known._known) == 1


def test_a_profiler_window_tells_what_the_compile_could_not(compiled: Any) -> None:
    module, sums, buffers = compiled
    executables = Executables()
    executables.created(created(sums))
    executables.analysed(1, module_cost(module), "")
    assert executables[1].peak_memory.reason == NOT_GIVEN
    cost = module_cost(module, buffers=buffers)
    window: Any = SimpleNamespace(
        operations={}, modules={("jit_step", cost.fingerprint): ProfiledModule("jit_step", cost)}
    )
    executables.profiled(window)
    assert executables[1].peak_memory.value == cost.memory


def test_only_of_those_that_are_shown_it_is_kept(compiled: Any) -> None:
    module, sums, buffers = compiled
    executables, cost = Executables(), module_cost(module, buffers=buffers)
    for number in range(PEAKS_SHOWN + 2):
        executables.created(created(sums)._replace(executable=number))
        executables.analysed(number, cost, "")
    kept = [number for number in range(PEAKS_SHOWN + 2) if executables[number].peak_memory.value]
    assert kept == [one.number for one in executables.largest]
    assert executables[PEAKS_SHOWN + 1].peak_memory.reason == "5 others need more memory"


def test_sums_other_than_xlas_are_withheld(compiled: Any) -> None:
    module, sums, buffers = compiled
    executables = Executables()
    executables.created(created(tuple((kind, size + 1) for kind, size in sums)))
    executables.analysed(1, module_cost(module, buffers=buffers), "")
    assert executables[1].peak_memory.value is None
    assert "do not add up" in str(executables[1].peak_memory.reason)


def test_the_trace_of_a_gpu_has_its_buffers() -> None:
    (host,) = read_trace(TRACE).hosts
    memories = {
        program: module_cost(module, buffers=host.buffers[program]).memory
        for program, module in host.modules.items()
    }
    convolution = max(memories.values(), key=lambda memory: memory.needed if memory else 0)
    assert convolution is not None
    assert convolution.live is not None
    assert 0 <= convolution.sums["temporary"] - convolution.live < 512  # aligned to 256 bytes
    output, temporary = convolution.buffers[:2]
    # A 3D convolution to 5 120 channels of 34 × 31 × 53 values in bfloat16, and the same turned.
    assert output.bytes == temporary.bytes == 5120 * 34 * 31 * 53 * 2
    assert {output.kind, temporary.kind} == {"output", "temporary"}
    assert temporary.source.endswith("generate_conv_trace.py:23")
