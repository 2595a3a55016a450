"""A run that the trace's edge cuts is no run: the operations that were under way there were not recorded."""

from __future__ import annotations

import pytest

from jaxobs.proto.messages import HloMessage, ModuleMessage
from jaxobs.trace import read_trace
from jaxobs.trace.timeline import ONLY_PARTS
from tests.trace.written import WrittenPlane, space

PRODUCT, SMALL, SECOND = "dot.1", "fusion.2", "dot.3"


def module():
    """The module of a product, a small fusion and another product, one after the other."""
    message = ModuleMessage(name=b"jit_f", entry_computation_id=1)
    entry = message.computations.add(id=1, root_id=3)
    entry.instructions.add(name=PRODUCT.encode(), opcode=b"dot", id=1)
    entry.instructions.add(name=SMALL.encode(), opcode=b"fusion", id=2, operand_ids=[1])
    entry.instructions.add(name=SECOND.encode(), opcode=b"dot", id=3, operand_ids=[2])
    plane = WrittenPlane("/host:metadata")
    plane.kind(
        "jit_f(3)", **{"Hlo Proto": HloMessage(module=message.SerializeToString()).SerializeToString()}
    )
    return plane


def run(number, start, *names):
    """Operations of one run, 10 µs each but for the small one, which takes 1 µs."""
    events = []
    for name in names:
        length = 1 if name == SMALL else 10
        stats = {
            "hlo_op": name,
            "hlo_module": "jit_f",
            "program_id": 3,
            "run_id": number,
            "device_ordinal": 0,
        }
        events.append((name, start, length, stats))
        start += length
    return events


def ran(*runs, metadata=True):
    plane = WrittenPlane("/host:CPU")
    plane.line("thread/0", [event for events in runs for event in events])
    (device,) = read_trace(space(*([module()] if metadata else []), plane)).devices
    (found,) = device.modules
    return found


WHOLE = (PRODUCT, SMALL, SECOND)


@pytest.mark.parametrize("metadata", [True, False])
def test_what_lies_between_two_long_operations_is_no_run(metadata):
    found = ran(run(1, 0, SMALL), run(2, 100, SMALL), metadata=metadata)
    assert (found.runs, found.runs_reason, found.run_seconds, found.cut_runs) == (None, ONLY_PARTS, None, 2)


def test_runs_at_the_edges_that_lack_an_operation_are_left_out():
    found = ran(run(1, 0, SMALL, SECOND), run(2, 30, *WHOLE), run(3, 60, *WHOLE), run(4, 90, PRODUCT))
    assert (found.runs, found.cut_runs) == (2, 2)
    assert found.run_seconds == pytest.approx(42e-6)


def test_a_disturbed_run_is_in_the_sum_and_not_in_what_runs_usually_take():
    disturbed = [*run(2, 30, PRODUCT, SMALL), *run(2, 80, SECOND)]
    found = ran(run(1, 0, *WHOLE), disturbed, run(3, 100, *WHOLE))
    assert (found.run_seconds, found.usual_seconds) == (pytest.approx(102e-6), pytest.approx(63e-6))


def test_whole_runs_at_the_edges_count():
    assert (ran(run(1, 0, *WHOLE)).runs, ran(run(1, 0, *WHOLE), run(2, 30, *WHOLE)).runs) == (1, 2)


def test_without_the_module_runs_are_held_against_one_between_them():
    cut = [run(1, 0, SMALL), run(2, 30, *WHOLE), run(3, 60, *WHOLE)]
    assert ran(*cut, metadata=False).runs == 2


def test_a_part_that_is_far_longer_than_whole_runs_tells_that_the_trace_is_shorter_than_the_long_ones():
    """The short branch of a condition runs twice, and then the long one, of which the trace holds eighty operations."""
    short = [run(number, 30 * number, *WHOLE) for number in (1, 2, 3)]
    found = ran(*short, run(4, 120, *[PRODUCT] * 80))
    assert (found.runs, found.runs_reason, found.run_seconds, found.cut_runs) == (None, ONLY_PARTS, None, 1)


def test_what_a_trace_holds_of_cut_runs_is_told():
    found = ran(run(1, 0, SMALL, SECOND), run(2, 30, *WHOLE), run(3, 60, *WHOLE), run(4, 90, PRODUCT))
    assert found.cut_seconds == pytest.approx(21e-6)
