"""Fresh traces of real programs on the CPU."""

from typing import Any

import jax
import pytest

from jaxobs.cost_model import module_cost
from jaxobs.trace import read_trace
from tests.trace.traced_programs import STEPS, TRIPS

RECORDS_OPERATIONS = jax.__version_info__ >= (0, 8)
"""JAX 0.6's profiler writes no event for an operation of a CPU."""

pytestmark = pytest.mark.skipif(not RECORDS_OPERATIONS, reason="this JAX records no operations of a CPU")


@pytest.fixture(scope="module")
def scan(cpu_traces):
    return read_trace(cpu_traces / "scan")


@pytest.fixture(scope="module")
def sharded(cpu_traces):
    return read_trace(cpu_traces / "sharded")


def test_products_are_joined_to_their_module(cpu_traces):
    trace: Any = read_trace(cpu_traces / "products")
    (device,) = trace.devices
    assert (device.platform, device.kind, device.name) == ("cpu", "cpu", "/host:CPU:0")
    (module,) = device.modules
    assert module.runs == STEPS
    costs = {
        one.name: one.once for one in module_cost(trace.module(device.host, module.program_id)).operations
    }
    products = [time for time in device.operations if costs[time.instruction].matrix_flops]
    assert sum(costs[time.instruction].matrix_flops * time.executions for time in products) == (
        2 * 2 * 256**3 * STEPS
    )


def test_a_loop_is_not_charged_for_its_body(scan):
    (device,) = scan.devices
    loop = next(time for time in device.operations if time.category == "while")
    assert loop.kind == "control"
    inside = [time for time in device.operations if time.executions == STEPS * TRIPS]
    assert loop.self_seconds < sum(time.self_seconds for time in inside)


def test_a_body_is_seen_as_often_as_it_ran(scan):
    (device,) = scan.devices
    module = scan.module(device.host, device.modules[0].program_id)
    for one in module_cost(module).operations:
        seen = [time.executions for time in device.operations if time.instruction == one.name]
        assert seen in ([], [one.executions * STEPS])


def test_charged_times_add_up_to_the_busy_time_on_each_device(scan, sharded):
    for device in (*scan.devices, *sharded.devices):
        assert sum(time.charged_seconds for time in device.operations) == pytest.approx(device.busy_seconds)
        assert 0 < device.busy_seconds <= device.span_seconds * (1 + 1e-9)


def test_eight_devices_are_told_apart(sharded):
    assert [device.name for device in sharded.devices] == [f"/host:CPU:{number}" for number in range(8)]
    for device in sharded.devices:
        assert device.modules[0].runs == STEPS
        reduction = next(time for time in device.operations if time.category == "all-reduce")
        assert reduction.kind == "collective"
        assert reduction.executions == STEPS


def test_the_exposed_communication_is_the_charge_of_the_collectives(sharded):
    for device in sharded.devices:
        collectives = [time for time in device.operations if time.kind == "collective"]
        assert device.exposed_communication_seconds == pytest.approx(
            sum(time.charged_seconds for time in collectives)
        )
        assert device.exposed_communication_seconds <= device.collective_seconds * (1 + 1e-9)


def test_an_operation_ends_before_one_that_needs_it_begins(sharded):
    """The product that feeds the all-reduce ends when this begins, however late its ending was written."""
    for device in sharded.devices:
        assert device.exposed_communication_seconds == pytest.approx(device.collective_seconds, rel=0.01)
