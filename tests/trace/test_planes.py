"""Planes as the profiler writes them for devices that are not here: NVIDIA GPUs and TPUs."""

import pytest

from jaxobs.trace import TraceError, read_trace
from tests.trace.written import WrittenPlane, modules, space

GRAPH = {"cuda_graph_exec_id": 7, "hlo_module": "jit_step", "program_id": 3}


def kernel(operation, correlation, program=3):
    return {
        "correlation_id": correlation,
        "hlo_op": operation,
        "hlo_module": "jit_step",
        "program_id": program,
        "kernel_details": "regs:32",
    }


def only(trace):
    (device,) = trace.devices
    return device


def gpu(*streams, **stats):
    plane = WrittenPlane("/device:GPU:0", device_vendor="Nvidia", **stats)
    for number, events in enumerate(streams):
        plane.line(f"Stream #{number}(Kernel,MemcpyH2D)", events)
    return plane


def test_copies_between_host_and_device_are_transfers():
    details = "kind_src:{} kind_dst:{} size:4096 dest:0 async:1"
    events = [
        ("MemcpyH2D", 0, 10, {"correlation_id": 1, "memcpy_details": details.format("pageable", "device")}),
        ("MemcpyD2D", 20, 5, {"correlation_id": 2, "memcpy_details": details.format("device", "device")}),
        ("MemcpyD2H", 30, 7, {"correlation_id": 3, "memcpy_details": details.format("device", "pinned")}),
    ]
    device = only(read_trace(space(gpu(events))))
    assert {time.name: time.kind for time in device.operations} == {
        "MemcpyH2D": "transfer",
        "MemcpyD2D": "copy",
        "MemcpyD2H": "transfer",
    }
    assert device.transfer_seconds == pytest.approx(17e-6)


@pytest.mark.parametrize("name", ["MemcpyH2D", "MemcpyD2H"])
def test_a_copy_of_memory_that_cupti_does_not_know_is_known_by_its_name(name):
    details = "kind_src:{} kind_dst:{} size:4096 dest:0 async:1"
    ends = ("unknown", "device") if name == "MemcpyH2D" else ("device", "unknown")
    device = only(read_trace(space(gpu([(name, 0, 10, {"memcpy_details": details.format(*ends)})]))))
    assert device.transfer_seconds == pytest.approx(10e-6)


def test_short_waits_between_kernels_of_one_program_are_launches():
    events = [
        ("a", 0, 10, kernel("a", 1)),
        ("b", 15, 10, kernel("b", 2)),  # 5 µs after
        ("a", 100, 10, kernel("a", 3)),  # the next run: 75 µs after
        ("c", 112, 10, kernel("c", 4, program=4)),  # another program
    ]
    beside = [("d", 24, 2, kernel("d", 5)), ("e", 29, 1, kernel("e", 6))]  # 3 µs after `d`, which ended last
    device = only(read_trace(space(gpu(events, beside))))
    assert device.gap_seconds == pytest.approx(8e-6)


def test_copies_beside_kernels_are_not_exposed():
    copy = ("MemcpyH2D", 0, 10, {"memcpy_details": "kind_src:host kind_dst:device size:1 dest:0 async:1"})
    device = only(read_trace(space(gpu([copy], [("fusion", 4, 20, kernel("fusion", 1))]))))
    assert device.transfer_seconds == pytest.approx(10e-6)
    assert device.exposed_transfer_seconds == pytest.approx(4e-6)
    assert device.busy_seconds == pytest.approx(24e-6)


def test_collectives_are_known_by_opcode_and_else_by_their_kernel():
    metadata = modules(jit_step=(3, {"psum.1": "all-reduce-start", "fusion": "fusion"}, {}))
    events = [
        ("fusion_kernel", 0, 10, kernel("fusion", 1)),
        ("anything", 10, 5, kernel("psum.1", 2)),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevComm*)", 20, 3, {"correlation_id": 3}),
    ]
    device = only(read_trace(space(metadata, gpu(events))))
    assert {time.name: time.category for time in device.operations}["psum.1"] == "all-reduce-start"
    assert device.collective_seconds == pytest.approx(8e-6)
    assert device.exposed_communication_seconds == pytest.approx(8e-6)


def test_an_asynchronous_wrapper_is_what_it_wraps():
    from jaxobs.proto.messages import HloMessage, ModuleMessage

    module = ModuleMessage(name=b"jit_step", entry_computation_id=1)
    entry = module.computations.add(id=1)
    entry.instructions.add(name=b"call-start", opcode=b"async-start", called_computation_ids=[2])
    module.computations.add(id=2, root_id=9).instructions.add(name=b"inner", opcode=b"reduce-scatter", id=9)
    metadata = WrittenPlane("/host:metadata")
    metadata.kind(
        "jit_step(3)", **{"Hlo Proto": HloMessage(module=module.SerializeToString()).SerializeToString()}
    )
    device = only(read_trace(space(metadata, gpu([("k", 0, 4, kernel("call-start", 1))]))))
    assert [(time.category, time.kind) for time in device.operations] == [
        ("reduce-scatter-start", "collective")
    ]


def test_streams_side_by_side_are_counted_once_and_share_the_time():
    device = only(
        read_trace(space(gpu([("a", 0, 10, kernel("fusion.1", 1))], [("b", 5, 10, kernel("fusion.2", 2))])))
    )
    assert device.busy_seconds == pytest.approx(15e-6)
    assert [time.charged_seconds for time in device.operations] == pytest.approx([7.5e-6, 7.5e-6])
    assert [time.self_seconds for time in device.operations] == pytest.approx([10e-6, 10e-6])


def test_command_buffers_are_said_to_hide_their_operations():
    events = [
        ("CudaGraph", 0, 50, {"correlation_id": 1, **GRAPH}),
        ("CudaGraph", 60, 50, {"correlation_id": 2, **GRAPH}),
    ]
    device = only(read_trace(space(gpu(events))))
    (time,) = device.operations
    assert (time.kind, time.count, time.module, time.program_id) == ("command_buffer", 2, "jit_step", 3)
    assert time.self_seconds == pytest.approx(100e-6)
    assert any("2 launches of command buffers" in note for note in device.notes)


def test_lines_that_repeat_the_streams_are_passed_over():
    plane = gpu([("a", 0, 10, kernel("fusion.1", 1))])
    plane.line("XLA Ops", [("a", 0, 10, kernel("fusion.1", 1))])
    plane.line("XLA Modules", [("jit_step", 0, 10, {})])
    assert only(read_trace(space(plane))).operations[0].count == 1


def test_a_gpu_is_known_by_its_name():
    plane = gpu([("a", 0, 1, {})], gpu_device_name="NVIDIA H200", clock_rate=1980000)
    assert only(read_trace(space(plane))).kind == "NVIDIA H200"


def test_a_gpu_that_says_too_little_has_no_kind():
    assert only(read_trace(space(gpu([("a", 0, 1, {})], core_count=132)))).kind is None


def test_repeated_kernels_of_one_instruction_are_executions():
    events = [("gemm", at * 10, 5, kernel("dot", at)) for at in range(6)]
    assert only(read_trace(space(gpu(events)))).operations[0].executions == 6


def test_outside_loops_an_instruction_runs_once_a_run():
    metadata = modules(jit_step=(3, {"fusion": "fusion", "add": "add", "conv": "custom-call"}, {}))
    events = []
    for run in range(3):
        at = 100 * run
        events += [("f", at, 5, kernel("fusion", 1)), ("g", at + 10, 5, kernel("add", 1))]
        events += [(name, at + 20 + 5 * part, 5, kernel("conv", 1)) for part, name in enumerate("xyxy")]
    device = only(read_trace(space(metadata, gpu(events))))
    assert {time.name: time.executions for time in device.operations} == {"fusion": 3, "add": 3, "conv": 3}
    assert device.modules[0].runs == 3


def tpu():
    metadata = modules(
        jit_step=(2**63 + 5, {"while.1": "while", "all-reduce.3": "all-reduce"}, {"fusion.2": "fusion"})
    )
    plane = WrittenPlane(
        "/device:TPU:0",
        device_type_string="TPU v5 lite",
        peak_teraflops_per_second=197.0,
        peak_hbm_bw_gigabytes_per_second=819.0,
    )
    shared = {
        "program_id": 5 - 2**63,
        "hlo_category": "loop fusion",
    }  # signed here, unsigned in the module's name
    loop = plane.kind("%while.1 = (s32[], f32[8]) while(...)", "while.1", **shared)
    fusion = plane.kind("%fusion.2 = f32[8] fusion(...)", **shared)
    reduction = plane.kind("%all-reduce.3 = f32[8] all-reduce(...)", "all-reduce.3", **shared)
    plane.line("XLA Modules", [(f"jit_step({2**63 + 5})", 0, 100, {"run_id": 1})])
    plane.line("Steps", [("17", 0, 100, {})])
    plane.line(
        "XLA Ops", [(loop, 0, 60, {}), (fusion, 5, 20, {}), (fusion, 30, 20, {}), (reduction, 70, 30, {})]
    )
    plane.line("XLA TraceMe", [("noise", 0, 100, {})])
    return space(metadata, plane)


def test_a_tpu_is_read():
    device = only(read_trace(tpu()))
    assert (device.platform, device.kind) == ("tpu", "TPU v5 lite")
    assert {time.instruction: time.self_seconds for time in device.operations} == pytest.approx(
        {"while.1": 20e-6, "fusion.2": 40e-6, "all-reduce.3": 30e-6}
    )
    assert {time.instruction: (time.module, time.program_id) for time in device.operations}["fusion.2"] == (
        "jit_step",
        2**63 + 5,
    )
    assert device.exposed_communication_seconds == pytest.approx(30e-6)
    assert device.busy_seconds == pytest.approx(90e-6)
    assert device.modules[0].runs == 1
    assert device.capabilities["peak_teraflops_per_second"] == 197.0


def test_the_devices_own_clock_holds_where_it_is_given():
    plane = WrittenPlane("/device:TPU:0")
    operation = plane.kind("%add.1 = f32[] add(...)", "add.1", program_id=1)
    own = {"device_offset_ps": 4_000_000, "device_duration_ps": 2_000_000}
    later = {"device_offset_ps": 8_000_000, "device_duration_ps": 1_000_000}
    plane.line("XLA Ops", [(operation, 100, 50, own), (operation, 200, 50, later)])
    device = only(read_trace(space(plane)))
    assert (device.span_seconds, device.busy_seconds) == pytest.approx((5e-6, 3e-6))


def test_events_with_impossible_times_are_left_out_and_counted():
    device = only(read_trace(space(gpu([("a", 0, 1, {}), ("a", 5, -3, {}), ("a", 9, 10.0**12, {})]))))
    assert device.operations[0].count == 1
    assert any("2 events with impossible times" in note for note in device.notes)


def test_a_device_that_ran_nothing_is_named():
    trace = read_trace(space(gpu([("a", 0, 1, {})]), WrittenPlane("/device:GPU:1", device_vendor="Nvidia")))
    assert len(trace.devices) == 1
    assert "/device:GPU:1 ran nothing" in trace.hosts[0].notes


def test_what_the_profiler_reported_is_passed_on():
    trace = read_trace(space(gpu([("a", 0, 1, {})]), errors=["buffer overflow"]))
    assert "the profiler reported: buffer overflow" in trace.hosts[0].notes


@pytest.fixture
def directory(tmp_path):
    for run, hosts in (("2026_01_01", "ab"), ("2026_01_02", "abc")):
        folder = tmp_path / "plugins" / "profile" / run
        folder.mkdir(parents=True)
        for host in hosts:
            trace = space(gpu([(f"{run}_{host}", 0, 1, {})]), hostname=host)
            (folder / f"{host}.xplane.pb").write_bytes(trace)
    return tmp_path


@pytest.mark.parametrize("place", ["", "plugins/profile", "plugins/profile/2026_01_02"])
def test_the_last_run_is_read_with_all_its_hosts(directory, place):
    trace = read_trace(directory / place)
    assert [host.name for host in trace.hosts] == ["a", "b", "c"]
    assert [device.operations[0].name for device in trace.devices] == [
        "2026_01_02_a",
        "2026_01_02_b",
        "2026_01_02_c",
    ]


def test_hosts_of_one_name_are_told_apart_by_their_files(tmp_path):
    for rank in (0, 1):
        trace = space(modules(jit_f=(1, {f"add.{rank}": "add"}, {})), gpu([("a", 0, 1, {})]), hostname="pod")
        (tmp_path / f"rank{rank}.xplane.pb").write_bytes(trace)
    trace = read_trace(tmp_path)
    assert [host.name for host in trace.hosts] == ["pod", "pod (rank1)"]
    assert trace.module("pod", 1) != trace.module("pod (rank1)", 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path / "absent", "no such file or directory"),
        (lambda path: path, "no trace in it"),
        (lambda path: (path / "empty.xplane.pb").touch() or path, "is empty"),
    ],
)
def test_a_path_without_a_trace_is_named(tmp_path, make, message):
    with pytest.raises(TraceError, match=message) as caught:
        read_trace(make(tmp_path))
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("opcode", ["copy", "copy-start", "fusion"])
def test_a_copy_that_its_event_calls_one_to_the_host_is_a_transfer(opcode):
    event = kernel("moved", 1) | {
        "memcpy_details": "kind_src:device kind_dst:pinned size:4096 dest:0 async:1"
    }
    metadata = modules(jit_step=(3, {"moved": opcode}, {}))
    device = only(read_trace(space(metadata, gpu([("MemcpyD2H", 0, 40, event)]))))
    assert device.transfer_seconds == pytest.approx(40e-6)


def test_asynchronous_operations_of_a_tpu_take_no_time_of_the_core():
    plane = WrittenPlane("/device:TPU:0")
    gather = plane.kind("%all-gather-start.1 = f32[8] all-gather-start()", program_id=1)
    copy = plane.kind("%copy-start.2 = f32[8] copy-start()", program_id=1)
    add = plane.kind("%add.3 = f32[] add(...)", "add.3", program_id=1)
    plane.line("XLA Ops", [(add, 90, 20, {})])
    plane.line("Async XLA Ops", [(gather, 0, 100, {}), (copy, 20, 20, {})])
    device = only(read_trace(space(plane)))
    assert device.collective_seconds == pytest.approx(100e-6)
    assert device.exposed_communication_seconds == 0
    assert device.busy_seconds == pytest.approx(20e-6)


def test_operations_are_told_from_each_other_beyond_the_statistics_that_are_kept(monkeypatch):
    monkeypatch.setattr("jaxobs.trace.planes.MAX_KNOWN", 10)
    names = [f"dot.{number}" for number in range(30)]
    events = [("gemm", 10 * at, 5, kernel(name, 1)) for at, name in enumerate(names)]
    device = only(read_trace(space(modules(jit_eval=(3, dict.fromkeys(names, "dot"), {})), gpu(events))))
    assert {time.name: time.count for time in device.operations} == dict.fromkeys(names, 1)
