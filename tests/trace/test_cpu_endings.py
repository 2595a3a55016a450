"""When an operation of a CPU device ended, whichever thread said so."""

from jaxobs.trace import read_trace
from tests.trace.written import WrittenPlane, space


def operation(name, start, launch, flow, run=1, device=0):
    stats = {
        "hlo_op": name,
        "hlo_module": "jit_f",
        "program_id": 3,
        "run_id": run,
        "device_ordinal": device,
        "_p": flow,
    }
    return (name, start, launch, stats)


def ending(name, moment, flow):
    return (f"end: {name}", moment, 0.1, {"_c": flow})


def task(moment):
    return ("ThreadpoolListener::StartRegion", moment, 0, {"_c": 99})


def times(*lines, of="self_seconds"):
    plane = WrittenPlane("/host:CPU")
    for number, events in enumerate(lines):
        plane.line(f"thread/{number}", sorted(events, key=lambda event: event[1]))
    (device,) = read_trace(space(plane)).devices
    return {time.name: round(getattr(time, of) * 1e6, 3) for time in device.operations}


def test_an_operation_lasts_until_another_thread_has_finished_it():
    assert times([operation("a", 0, 2, 5)], [task(1), ending("a", 30, 5)]) == {"a": 30}


def test_without_a_second_event_the_first_one_counts():
    assert times([operation("a", 0, 2, 5)]) == {"a": 2}


def test_a_thread_that_goes_on_first_tells_late():
    finishing = [task(8), operation("b", 12, 50, 6), ending("b", 62, 6), ending("a", 63, 5)]
    assert times([operation("a", 0, 2, 5)], finishing) == {"a": 12, "b": 50}


def test_an_earlier_task_of_the_thread_says_nothing():
    other = [task(3), operation("b", 4, 5, 6), ending("b", 9, 6), task(20), ending("a", 30, 5)]
    assert times([operation("a", 0, 2, 5)], other) == {"a": 30, "b": 5}


def test_another_run_or_device_says_nothing():
    finishing = [task(8), operation("b", 12, 5, 6, run=2), ending("a", 63, 5)]
    assert times([operation("a", 0, 2, 5)], finishing) == {"a": 63, "b": 5}


def test_a_loop_lasts_while_its_body_runs():
    """Without its module a loop is known by its name."""
    finishing = [task(8), operation("b", 12, 5, 6), operation("b", 20, 5, 7), ending("while.1", 30, 5)]
    lines = ([operation("while.1", 0, 2, 5)], finishing)
    assert times(*lines, of="fastest_seconds") == {"while.1": 30, "b": 5}
