"""A window comes when the loop runs as it will run."""

from jaxobs.plugin.protocol import Progress
from jaxobs_plugins.probes.profiler.schedule import Pace


def looked(pace, *, until, step, compiled=0.0, began=0.0):
    """Looks once a second at a loop whose steps take `step` seconds and began at `began`."""
    for second in range(int(began), int(until) + 1):
        pace.look(Progress(int((second - began) / step), int(compiled * 1e9)), float(second))
    return pace


def test_nothing_is_steady_before_the_first_compile():
    pace = Pace()
    pace.look(Progress(0, None), 0.0)
    pace.look(Progress(50, None), 100.0)
    assert not pace.is_steady()


def test_a_loop_is_steady_some_seconds_after_its_last_compile():
    assert not looked(Pace(), until=2, step=0.1).is_steady()
    assert looked(Pace(), until=5, step=0.1).is_steady()


def test_a_compile_begins_the_waiting_anew():
    pace = looked(Pace(), until=20, step=0.1)
    pace.look(Progress(210, int(20.5e9)), 21.0)
    assert not pace.is_steady()


def test_loops_of_slow_steps_are_steady_too_once_three_have_ended():
    assert not looked(Pace(), until=25, step=10.0).is_steady()
    assert looked(Pace(), until=45, step=10.0).is_steady()


def test_a_loop_that_stands_still_is_not():
    pace = looked(Pace(), until=20, step=0.1)
    for second in range(21, 25):
        pace.look(Progress(200, 0), float(second))
    assert not pace.is_steady()


def test_a_job_without_marked_steps_is_steady_half_a_minute_after_its_last_compile():
    pace = Pace()
    pace.look(Progress(0, 0), 29.0)
    assert not pace.is_steady()
    pace.look(Progress(0, 0), 31.0)
    assert pace.is_steady()


def test_the_pace_is_that_of_the_steps_and_forgets_what_lay_before_a_window():
    pace = looked(Pace(), until=10, step=0.25)
    assert abs(pace.step_seconds - 0.25) < 0.01
    pace.interrupted()
    assert pace.step_seconds is None
