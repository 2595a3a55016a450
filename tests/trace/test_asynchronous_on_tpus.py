"""Asynchronous operations of TPUs: a recorded trace of four chips, and one made by hand: see `data/README.md`."""

import gzip
from pathlib import Path

import pytest

from jaxobs.cost_model import module_cost
from jaxobs.hardware.known_peaks import known_peaks
from jaxobs.roofline_model.traced import join
from jaxobs.trace import read_trace
from jaxobs.trace.planes import PLANES, Plane, lines_of, parts_of
from tests.trace.written import WrittenPlane, field, space

DATA = Path(__file__).parent / "data"
OFFLOADED = gzip.decompress((DATA / "v6e_4chips_host_offload.xplane.pb.gz").read_bytes())
BY_HAND = gzip.decompress((DATA / "syn_tpu.xplane.pb.gz").read_bytes())


@pytest.fixture(scope="module")
def offloaded():
    return read_trace(OFFLOADED)


def without_modules(data):
    planes = parts_of(memoryview(data), "a trace")[PLANES]
    return b"".join(field(1, bytes(part)) for part in planes if Plane(part).name != "/host:metadata")


def joined(trace):
    (host,) = trace.hosts
    costs = {program: module_cost(module) for program, module in host.modules.items()}
    peaks = {
        (one.host, one.name): known_peaks(one.kind, "tpu", None, {}, elsewhere=True) for one in trace.devices
    }
    return join(trace, lambda _, program: costs.get(program, "none"), peaks)


def durations(data, chip):
    """Seconds of each instruction on the line of a chip's operations, by the device's clock."""
    plane = next(one for one in map(Plane, parts_of(memoryview(data), "a trace")[PLANES]) if one.name == chip)
    names = {number: name for number, name in plane.stat_names.items() if name == "device_duration_ps"}
    found: dict[str, float] = {}
    for event in next(line for line in lines_of(plane) if line.name == "XLA Ops").events:
        name = plane.events[event.metadata_id].display_name
        (stat,) = (one for one in map(decoded, event.stats) if one.metadata_id in names)
        found[name] = found.get(name, 0.0) + (stat.int64_value or stat.uint64_value) / 1e12
    return found


def decoded(stat):
    from jaxobs.proto.messages import StatMessage

    return StatMessage.FromString(stat)


def own_seconds(device):
    """Busy seconds without the waits for other chips."""
    return device.busy_seconds - device.exposed_communication_seconds


def test_copies_from_host_memory_are_transfers_on_every_chip(offloaded):
    assert len(offloaded.devices) == 4
    for device in offloaded.devices:
        moved = [one for one in device.operations if one.name.startswith("copy-")]
        assert {one.kind for one in moved} == {"transfer"}
        assert device.exposed_transfer_seconds == pytest.approx(sum(one.self_seconds for one in moved))
        assert device.exposed_transfer_seconds / device.busy_seconds == pytest.approx(0.963, abs=0.003)
        assert {one.name for one in device.operations if one.kind == "compute"} <= {
            "broadcast_add_fusion", "broadcast_add_fusion.1", "broadcast_add_fusion.2", "broadcast.2",
        }  # fmt: skip


def test_copies_from_host_memory_have_the_line_that_needs_them(offloaded):
    found = joined(offloaded)
    lines = {
        one.source.rpartition("/")[2] for one in found.operations.values() if one.name.startswith("copy-")
    }
    assert lines == {"host_offload_stress_test.py:29"}


def test_four_chips_agree(offloaded):
    first, *others = offloaded.devices
    for other in others:
        assert own_seconds(other) == pytest.approx(own_seconds(first), rel=1e-3)
        assert other.exposed_transfer_seconds == pytest.approx(first.exposed_transfer_seconds, rel=1e-3)
        # Of the first alone the trace has the line of asynchronous operations.
        assert other.transfer_seconds == pytest.approx(first.transfer_seconds, rel=5e-3)


def test_what_was_in_flight_is_known_without_the_line_that_tells_it(offloaded):
    device = read_trace(OFFLOADED.replace(b"Async XLA Ops", b"Other XLA Ops")).devices[0]
    assert device.transfer_seconds == pytest.approx(offloaded.devices[0].transfer_seconds, rel=5e-3)
    assert device.busy_seconds == offloaded.devices[0].busy_seconds


def test_own_times_are_those_of_the_core(offloaded):
    for device in offloaded.devices:
        truth = durations(OFFLOADED, device.name)
        told = {one.instruction: one.self_seconds for one in device.operations if one.instruction}
        assert told == pytest.approx(truth)


def test_no_operation_is_shown_faster_than_its_peak_allows(offloaded):
    profiled = joined(offloaded)
    for one in profiled.operations.values():
        value, reason, _ = one.work.efficiency(profiled.busy_seconds)
        assert value is None or value <= 1.5
        assert value is not None or reason
    start = next(one for one in profiled.operations.values() if one.name == "copy-start")
    assert "times its time" in start.work.efficiency(profiled.busy_seconds).reason
    assert start.label == "transfer"


def test_the_bytes_of_a_copy_belong_to_its_pair_once(offloaded):
    found = {one.name: one.work.cost.bytes for one in joined(offloaded).operations.values()}
    assert found["copy-start.4"] == 400 * 5 * 1024 * 1024 * 256 * 4
    assert found["copy-done.4"] == 0


@pytest.mark.parametrize("data", [BY_HAND, without_modules(BY_HAND)], ids=["with modules", "without"])
def test_a_collective_that_the_sparsecore_takes_over_is_exposed_where_the_core_waits(data):
    (device,) = read_trace(data).devices
    assert device.exposed_communication_seconds == pytest.approx(1.5e-3, rel=1e-3)
    assert device.collective_seconds == pytest.approx(6.5e-3, rel=1e-4)
    found = {one.name: one for one in device.operations}
    gather = "all-gather.137.cloned.1.call"
    assert {found[f"{gather}-{half}"].kind for half in ("start", "done")} == {"collective"}
    assert found["fusion.321"].charged_seconds == pytest.approx(5e-3)
    assert "async-all-gather" not in found


def test_the_clock_of_what_is_in_flight_is_that_of_the_core():
    plane = WrittenPlane("/device:TPU:0")
    start = plane.kind("%all-gather-start.1 = f32[8] all-gather-start()", "all-gather-start.1", program_id=1)
    done = plane.kind("%all-gather-done.1 = f32[8] all-gather-done()", "all-gather-done.1", program_id=1)

    def own(microsecond, lasted):
        return {"device_offset_ps": microsecond * 10**6, "device_duration_ps": lasted * 10**6}

    plane.line("XLA Ops", [(start, 1000, 1, own(1, 1)), (done, 1050, 50, own(51, 50))])
    plane.line("Async XLA Ops", [(start, 1000, 100, {})])
    (device,) = read_trace(space(plane)).devices
    assert device.collective_seconds == pytest.approx(100e-6)


def test_an_equal_offset_in_another_line_is_not_the_same_moment():
    plane = WrittenPlane("/device:TPU:0")
    gather = plane.kind("%all-gather-start.1 = f32[8] all-gather-start()", "all-gather-start.1", program_id=1)
    add = plane.kind("%add.1 = f32[8] add()", "add.1", program_id=1)
    own = {"device_offset_ps": 60 * 10**6, "device_duration_ps": 10 * 10**6}
    plane.line("XLA Ops", [(add, 100, 10, own), (add, 1100, 10, {})])
    plane.line("Async XLA Ops", [(gather, 100, 50, {})], timestamp_ns=1_000_000)
    (device,) = read_trace(space(plane), stretches={"later": [(1.1e-3, 1.15e-3)]}).devices
    assert device.stretches["later"].collective_seconds == pytest.approx(50e-6)


def test_a_run_takes_what_it_takes_by_the_cores_clock_where_the_hosts_jumps():
    plane = WrittenPlane("/device:TPU:0")
    copy = plane.kind("%copy-start.1 = f32[8] copy-start()", "copy-start.1", program_id=7)
    wait = plane.kind("%copy-done.1 = f32[8] copy-done()", "copy-done.1", program_id=7)

    def own(microsecond, lasted):
        return {"device_offset_ps": microsecond * 10**6, "device_duration_ps": lasted * 10**6}

    plane.line("XLA Modules", [("jit_step(7)", 999, 302, {})])
    plane.line("XLA Ops", [(copy, 1000, 0, own(500, 0)), (wait, 1000, 300, own(500, 100))])
    plane.line("Async XLA Ops", [(copy, 1000, 300, {})])
    (device,) = read_trace(space(plane), stretches={"all": [(0, 1)]}).devices
    assert device.stretches["all"].runs[7] == (1, pytest.approx(102e-6))
    assert (device.busy_seconds, device.gap_seconds) == pytest.approx((100e-6, 2e-6))


def test_every_run_of_the_real_program_takes_the_same_time(offloaded):
    (device, *_) = offloaded.devices
    (program, *_) = (one.program_id for one in device.modules)
    parts = {str(second): [(second, second + 2.5)] for second in range(20, 90)}
    stretches = read_trace(OFFLOADED, stretches=parts).devices[0].stretches.values()
    runs = [stretch.runs[program] for stretch in stretches if program in stretch.runs]
    assert len(runs) > 50
    assert all(seconds / count == pytest.approx(0.784, rel=0.01) for count, seconds in runs)


def test_what_starts_at_the_moment_of_another_and_takes_no_time_is_not_inside_it():
    plane = WrittenPlane("/device:TPU:0")
    start = plane.kind("%all-gather-start.1 = f32[8] all-gather-start()", "all-gather-start.1", program_id=1)
    fusion = plane.kind("%fusion.1 = f32[8] fusion()", "fusion.1", program_id=1)
    plane.line("XLA Ops", [(start, 10, 0, {}), (fusion, 10, 90, {})])
    (device,) = read_trace(space(plane)).devices
    assert {one.name: one.kind for one in device.operations}["fusion.1"] == "compute"


def test_an_asynchronous_update_in_host_memory_is_a_transfer_as_a_copy_is():
    """XLA's HostMemoryTransferAsyncifier makes such pairs of what a scan offloads: written by hand."""
    plane = WrittenPlane("/device:TPU:0")
    name = "%dynamic-update-slice-done.1 = f32[10,64]{1,0:T(8,128)S(5)} async-done(%dynamic-update-slice-start.1)"
    done = plane.kind(name, "dynamic-update-slice-done.1", program_id=1, hlo_category="async-done")
    plane.line("XLA Ops", [(done, 0, 40, {})])
    (device,) = read_trace(space(plane)).devices
    assert device.exposed_transfer_seconds == pytest.approx(40e-6)


def test_the_wait_for_other_chips_at_a_runs_start_is_communication(offloaded):
    for device in offloaded.devices:
        (sums,) = (one for one in device.modules if one.name == "jit__psum")
        waits = [one for one in device.operations if one.name == "barrier-cores"]
        assert [one.module for one in waits] == ["jit__psum"]
        assert sums.charged_seconds == pytest.approx(sums.run_seconds, rel=1e-6)
        assert device.exposed_communication_seconds == pytest.approx(sums.charged_seconds, rel=1e-3)
