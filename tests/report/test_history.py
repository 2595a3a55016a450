import math

from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.report.history import COLUMNS, POINTS, SECONDS, History
from jaxobs.report.view import shares_of
from tests.sample_document import document, loop


def test_it_reaches_back_an_hour_and_never_holds_more_than_its_bound():
    history = History()
    for second in range(2 * int(SECONDS)):
        history.add(
            float(second), {"loops": {"train": {"steps": second, "recorded": {str(second % 300): 1.0}}}}
        )
        if second % 500 == 0:
            trend = history.trend()
            assert len(trend.times) <= POINTS
            assert len(trend.columns) <= COLUMNS
    trend = history.trend()
    assert -SECONDS <= trend.times[0] <= -0.95 * SECONDS
    assert trend.times[-1] == 0.0
    gaps = [after - before for before, after in zip(trend.times, trend.times[1:], strict=False)]
    assert max(gaps) <= 2 * min(gaps)


def test_a_run_of_a_minute_is_kept_second_by_second():
    history = History()
    for second in range(60):
        history.add(second + 0.05 * (second % 2), document())
    assert len(history.trend().times) == 60


def test_what_an_evaluation_recorded_is_kept_and_drawn_no_longer_than_it_is_new():
    history = History()
    for second, left in enumerate((None, 1.0, 4.0, 6.0, 60.0)):
        evaluated = {"steps": 5, "left_seconds": left, "recorded": {"loss": 0.5}}
        history.add(float(second), {"loops": {"eval": evaluated}})
    drawn = history.trend().column("loops", "eval", "recorded", "loss")
    assert [math.isnan(value) for value in drawn] == [False, False, False, True, True]


@settings(deadline=None)
@given(st.lists(st.floats(0.5, 30), max_size=400))
def test_counters_keep_what_lies_between_two_moments(steps):
    """Whatever is let go of: the differences between the moments that stay add up to the whole."""
    history, spent, now = History(), 0.0, 0.0
    for step in steps:
        now += step
        spent += step
        history.add(now, {"loops": {"train": {"components": {"compute": spent}}}})
    column = history.trend().column("loops", "train", "components", "compute")
    times = history.trend().times
    assert all(
        math.isclose(column[-1] - value, -time, abs_tol=1e-6)
        for time, value in zip(times, column, strict=True)
    )


def test_what_is_no_number_or_comes_later_is_not_known():
    history = History()
    history.add(0.0, {"loops": {"train": {"mfu": None, "recorded": {"loss": "not ready"}}}})
    history.add(1.0, {"loops": {"train": {"mfu": 0.5, "recorded": {"loss": math.inf}}}})
    trend = history.trend()
    assert math.isnan(trend.column("loops", "train", "mfu")[0])
    assert trend.column("loops", "train", "mfu")[1] == 0.5
    assert trend.below("loops", "train", "recorded") == {}
    assert all(map(math.isnan, trend.column("nobody")))


def test_a_stretch_in_which_nothing_was_charged_is_a_part_of_the_next():
    history = History()
    for second, compute in enumerate([0.0, 1.0, 1.0, 3.0]):
        history.add(float(second), {"loops": {"train": loop(1 + second, compute=compute, input=0.0)}})
    edges, shares = shares_of(history.trend(), "train")
    assert edges == [-3.0, -2.0, 0.0]
    assert shares["compute"] == [1.0, 1.0]
