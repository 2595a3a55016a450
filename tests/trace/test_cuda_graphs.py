"""CUDA graphs (XLA's command buffers) in traces of NVIDIA GPUs, which were made by hand: see `data/README.md`."""

from pathlib import Path

import pytest

from jaxobs.cost_model import module_cost
from jaxobs.hardware.known_peaks import known_peaks
from jaxobs.proto.messages import HloMessage, ModuleMessage
from jaxobs.roofline_model.traced import join
from jaxobs.trace import read_trace
from jaxobs.trace.modules import ModuleIndex, library_kernel
from jaxobs.trace.planes import PLANES, Plane, parts_of
from tests.trace.written import WrittenPlane, space

DATA = Path(__file__).parent / "data"
PRODUCT = 2 * 4096**3
"""FLOPs of the graph's product."""
NODE_FORMS = [
    "nv_graph_node",
    "nv_graph_node_no_hlo_op",
    "nv_graph_node_nccl_first",
    "nv_graph_node_memcpy_first",
]


class Kept:
    """A plane of a recorded trace, as it is."""

    def __init__(self, path, name):
        planes = parts_of(memoryview(path.read_bytes()), "a trace")[PLANES]
        (self.bytes,) = (bytes(part) for part in planes if Plane(part).name == name)

    def serialized(self):
        return self.bytes


def joined(trace):
    costs = {program: module_cost(module) for program, module in trace.hosts[0].modules.items()}
    peaks = {
        (one.host, one.name): known_peaks(one.kind, "gpu", None, {}, elsewhere=True) for one in trace.devices
    }
    return join(trace, lambda _, program: costs.get(program, "none"), peaks)


def operations(profiled):
    return {one.name: one for one in profiled.operations.values()}


def graph(*kernels, runs=10, program=7, **stats):
    """A device that launched a graph of these kernels (name, node, µs) again and again, with the recorded module."""
    device = WrittenPlane("/device:GPU:0", device_vendor="Nvidia", gpu_device_name="NVIDIA H100 80GB HBM3")
    events, at = [], 0
    for run in range(runs):
        for name, node, lasted in kernels:
            told = {
                "correlation_id": run,
                "program_id": program,
                "hlo_module": "jit_f",
                "cuda_graph_node_id": node,
            }
            events.append((name, at, lasted, told | {"hlo_op": "command_buffer_1"} | stats))
            at += lasted + 1
    return device.line("Stream #13(Kernel)", events)


def recorded_module():
    return Kept(DATA / "nv_graph_node.xplane.pb", "/host:metadata")


@pytest.mark.parametrize("name", NODE_FORMS)
def test_each_kernel_of_a_graph_is_the_instruction_it_executes(name):
    found = operations(joined(read_trace(DATA / f"{name}.xplane.pb")))
    for operation, lasted in (("g", 200e-6), ("loop_add_fusion", 45e-6), ("loop_multiply_fusion", 45e-6)):
        assert found[operation].executions == 10
        assert found[operation].work.seconds / 10 == pytest.approx(lasted)
    assert found["g"].work.cost.matrix_flops == 10 * PRODUCT
    assert found["g"].label == "compute"
    assert found["loop_add_fusion"].label == "memory"


@pytest.mark.parametrize(
    ("name", "kernel", "kind", "lasted"),
    [
        ("nv_graph_node_nccl_first", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "collective", 80e-6),
        ("nv_graph_node_memcpy_first", "MemcpyD2D", "copy", 20e-6),
    ],
)
def test_collectives_and_copies_in_a_graph_are_by_themselves(name, kernel, kind, lasted):
    trace = read_trace(DATA / f"{name}.xplane.pb")
    (device,) = trace.devices
    (other,) = (one for one in device.operations if one.kind != "compute")
    assert (other.name.partition("(")[0], other.kind, other.count) == (kernel, kind, 10)
    assert other.self_seconds / 10 == pytest.approx(lasted)
    assert device.compute_seconds == pytest.approx(10 * 290e-6)
    assert device.collective_seconds == pytest.approx(10 * lasted if kind == "collective" else 0.0)


def test_a_graph_that_is_one_event_has_the_work_of_its_module():
    profiled = joined(read_trace(DATA / "nv_graph_exec.xplane.pb"))
    (launch,) = profiled.operations.values()
    assert launch.kind == "command_buffer"
    assert launch.work.cost.matrix_flops == 10 * PRODUCT
    assert any("10 launches of command buffers" in note for note in profiled.devices[0].trace.notes)


def test_kernels_that_cannot_be_told_keep_their_name_and_their_work_is_the_modules():
    kernels = [("of_somebody", 0, 200), ("loop_add_fusion", 1, 45), ("loop_multiply_fusion", 2, 45)]
    profiled = joined(read_trace(space(recorded_module(), graph(*kernels))))
    found = operations(profiled)
    assert found["of_somebody"].module == "jit_f"
    assert found["of_somebody"].label == "unmodelled"
    assert found["of_somebody"].work.figures(1.0)["flops"] is None
    (module,) = profiled.modules.values()
    assert module.work.cost.matrix_flops == profiled.devices[0].work.cost.matrix_flops == 10 * PRODUCT
    assert module.work.cost.bytes == pytest.approx(10 * (100_663_296 + 2 * 134_217_728))
    (note,) = profiled.devices[0].trace.notes
    assert "1 kernels of CUDA graphs, such as of_somebody," in note


def test_the_work_of_equal_instructions_with_one_kernel_is_counted_once_each():
    kernels = [("of_somebody", 0, 200), ("loop_add_fusion", 1, 45), ("loop_add_fusion", 2, 45)]
    profiled = joined(read_trace(space(recorded_module(), graph(*kernels))))
    assert operations(profiled)["loop_add_fusion"].executions == 20
    (module,) = profiled.modules.values()
    assert (module.runs, module.work.cost.vector_flops) == (10, 10 * 2 * 4096**2)


def test_a_graph_none_of_whose_kernels_can_be_told_has_its_modules_work():
    profiled = joined(read_trace(space(recorded_module(), graph(("a", 0, 200), ("b", 1, 90)))))
    (module,) = profiled.modules.values()
    assert (module.runs, module.runs_reason) == (10, "launches of its CUDA graphs")
    assert module.work.cost.matrix_flops == 10 * PRODUCT


def test_without_its_module_each_kernel_is_an_operation():
    profiled = joined(read_trace(space(graph(("nvjet_a", 0, 200), ("loop_add_fusion", 1, 45)))))
    assert {name: one.work.seconds for name, one in operations(profiled).items()} == pytest.approx(
        {"nvjet_a": 2e-3, "loop_add_fusion": 450e-6}
    )


def test_newer_events_name_the_instruction_of_each_node():
    plane = graph(("kernel_of_somebody", 0, 200), hlo_op="loop_multiply_fusion")
    (only,) = joined(read_trace(space(recorded_module(), plane))).operations.values()
    assert (only.name, only.executions, only.kernels) == ("loop_multiply_fusion", 10, ("kernel_of_somebody",))


def test_nodes_that_are_no_numbers_are_read_all_the_same():
    (device,) = read_trace(space(graph(("a", "x", 1), ("b", 2, 1), ("c", 1.5, 1), runs=1))).devices
    assert len(device.operations) == 3


def scheduled(*calls, order=None):
    """A module of custom calls (name, target), which runs them in this order of their places."""
    module = ModuleMessage(name=b"jit_f", entry_computation_id=1)
    entry = module.computations.add(id=1)
    for number, (name, target) in enumerate(calls):
        entry.instructions.add(
            name=name.encode(), opcode=b"custom-call", custom_call_target=target.encode(), id=number
        )
    if order is not None:
        module.schedule.sequences.add(key=1).value.instruction_ids.extend(order)
    plane = WrittenPlane("/host:metadata")
    proto = HloMessage(module=module.SerializeToString()).SerializeToString()
    plane.kind("jit_f(7)", **{"Hlo Proto": proto})
    return plane


CALLS = (("first", "__cublas$gemm"), ("second", "__cublas$lt$matmul"), ("conv", "__cudnn$convForward"))
# Nodes are numbered in the order in which they were added, whatever order they ran in.
KERNELS = [
    ("nvjet_tst", 9, 30), ("sm90_xmma_gemm_splitK", 5, 10), ("void cublasLt::splitKreduce_kernel<32>", 6, 2),
    ("sm80_xmma_fprop_implicit_gemm", 7, 70),
]  # fmt: skip


def executed(plane):
    (device,) = read_trace(space(plane, graph(*KERNELS, runs=3))).devices
    return {one.name: (one.instruction, one.executions, one.self_seconds * 1e6) for one in device.operations}


def test_kernels_of_libraries_are_told_by_what_they_compute_and_their_order():
    assert executed(scheduled(*CALLS, order=[1, 0, 2])) == {
        "conv": ("conv", 3, pytest.approx(210)),
        "first": ("first", 3, pytest.approx(90)),
        "second": ("second", 3, pytest.approx(36)),
    }


@pytest.mark.parametrize(
    "plane",
    [scheduled(*CALLS), scheduled(*CALLS, ("third", "__cublas$gemm"), order=[1, 0, 2, 3])],
    ids=["without a schedule", "of another number"],
)
def test_kernels_of_libraries_whose_order_or_number_does_not_tell_keep_their_names(plane):
    found = executed(plane)
    assert {name: told for name, (told, _, _) in found.items()} == {
        "conv": "conv", "nvjet_tst": None, "sm90_xmma_gemm_splitK": None,
        "void cublasLt::splitKreduce_kernel<32>": None,
    }  # fmt: skip


def test_a_call_that_ran_outside_the_graph_is_not_in_it():
    device = graph(("nvjet_tst", 5, 10), runs=3)
    outside = {"program_id": 7, "hlo_module": "jit_f", "hlo_op": "first"}
    device.line("Stream #14(Kernel)", [("nvjet_tst", 500 + at, 1, outside) for at in (0, 10, 20)])
    (found,) = read_trace(space(scheduled(*CALLS, order=[0, 1, 2]), device)).devices
    assert {one.instruction: one.in_graph for one in found.operations} == {"first": False, "second": True}


def test_recorded_kernels_of_fusions_have_the_names_of_their_instructions(recorded):
    """On eight real GPUs, whose events name both."""
    index = ModuleIndex(dict(recorded.hosts[0].modules), [])
    seen = 0
    for one in (one for device in recorded.devices for one in device.operations if one.category == "fusion"):
        for kernel in one.kernels or (one.name,):
            assert index.module(one.program_id).kernels[kernel.removesuffix(".kd")] == one.instruction
            seen += 1
    assert seen >= 8


def test_names_of_library_kernels():
    assert library_kernel("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT") == "product"
    assert library_kernel("void gemmSN_TN_kernel<float, 128>") == "product"
    assert library_kernel("sm80_xmma_dgrad_implicit_gemm_bf16") == "convolution"
    assert library_kernel("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16") == "attention"
    assert library_kernel("loop_add_fusion") is None
