"""Eight GPUs, as recorded. Expected times are XProf's own, which `make trace-peers` compares for each device."""

import pytest

from jaxobs.cost_model import module_cost

BUSY_MICROSECONDS = {
    0: 3995.965,
    1: 3345.845,
    2: 3524.285,
    3: 3403.364,
    4: 3493.365,
    5: 3464.884,
    6: 3403.004,
    7: 3502.165,
}
"""Sums of the kernels' durations; on the first device 4.2 µs of them overlap."""

SELF_MICROSECONDS = {
    "input_transpose_fusion": 14344.14,
    "cudnn-conv.1": 12531.616,
    "input_transpose_fusion.1": 481.4,
    "loop_transpose_fusion": 193.52,
}
"""Over all devices, from XProf 2.24.2, `hlo_stats`."""


def test_each_device_is_as_busy_as_xprof_says(recorded):
    busy = {int(device.name.rpartition(":")[2]): device.busy_seconds * 1e6 for device in recorded.devices}
    assert busy == pytest.approx(BUSY_MICROSECONDS)


def test_each_operation_takes_what_xprof_says(recorded):
    found = dict.fromkeys(SELF_MICROSECONDS, 0.0)
    for device in recorded.devices:
        for time in device.operations:
            if time.instruction is not None:
                found[time.instruction] += time.self_seconds * 1e6
    assert found == pytest.approx(SELF_MICROSECONDS)


def test_charged_times_add_up_to_the_busy_time(recorded):
    for device in recorded.devices:
        assert sum(time.charged_seconds for time in device.operations) == pytest.approx(device.busy_seconds)
        assert device.busy_seconds + device.idle_seconds == pytest.approx(device.span_seconds)


def test_an_execution_that_launches_two_kernels_counts_once(recorded):
    for device in recorded.devices:
        times = {time.instruction: time for time in device.operations}
        assert times["cudnn-conv.1"].executions == 5
        assert len(times["cudnn-conv.1"].kernels) == 2
        assert device.modules[0].runs == 5


def test_every_operation_whose_module_is_in_the_trace_has_a_cost(recorded):
    seen = 0
    for device in recorded.devices:
        for time in device.operations:
            module = recorded.module(device.host, time.program_id)
            if module is not None:
                costs = {operation.name: operation.once for operation in module_cost(module).operations}
                assert costs[time.instruction].bytes > 0
                seen += 1
    assert seen == 8 * 4


def test_the_convolution_is_as_large_as_xprof_says(recorded):
    device = recorded.devices[0]
    module = recorded.module(device.host, device.modules[0].program_id)
    costs = {operation.name: operation.once for operation in module_cost(module).operations}
    # XProf: 206 240.77 GFLOP/s over 79 occurrences, one a kernel, in 12 531.616 µs.
    assert costs["cudnn-conv.1"].matrix_flops == pytest.approx(206240.7693e9 * 12531.616e-6 / 79, rel=0.01)


def test_copies_are_told_by_the_call_that_launched_them(recorded):
    names = {time.name for time in recorded.devices[0].operations if time.kind == "copy"}
    assert "__amd_rocclr_copyBuffer.kd (hipMemcpyDtoDAsync)" in names
    assert recorded.devices[0].transfer_seconds == 0


def test_the_device_is_known_by_its_figures(recorded):
    assert {device.kind for device in recorded.devices} == {"AMD Instinct MI300X"}
    assert recorded.devices[3].capabilities["memory_bandwidth"] == 2662.4e9
    assert recorded.devices[3].capabilities["core_count"] == 304
