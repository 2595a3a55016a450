from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jaxobs.report.record import MAX_WINDOWS, MIN_SECONDS, StepWindows

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=400)


def followed(counts: list[int], step: float = 0.01) -> tuple[StepWindows, int]:
    windows, steps = StepWindows(), 0
    for count in counts:
        steps += count
        windows.add({"steps": steps, "wall_seconds": steps * step, "components": {"input": steps * step / 4}})
    return windows, steps


@given(COUNTS)
def test_stretches_add_up_to_what_was_seen_and_are_bounded(counts: list[int]) -> None:
    windows, steps = followed(counts)
    columns = windows.to_dict()
    told = [value or 0.0 for value in columns.get("steps", [])]
    assert len(told) <= MAX_WINDOWS
    assert all(told), "a stretch without a step says nothing of steps"
    assert sum(told) <= steps
    # What is left out is what has happened since the last stretch ended; the shortest is one that is not merged yet.
    assert steps - sum(told) <= (2 * min(told) if told else MIN_SECONDS / 0.01)


@given(COUNTS)
def test_the_mean_step_of_every_stretch_is_the_loops(counts: list[int]) -> None:
    columns = followed(counts)[0].to_dict()
    for steps, spent, waited in zip(
        *(columns.get(name, []) for name in ("steps", "seconds", "component/input")), strict=True
    ):
        assert steps is not None
        assert spent is not None
        assert waited is not None
        assert abs(spent / steps - 0.01) < 1e-6
        assert abs(waited / steps - 0.0025) < 1e-6


def test_a_step_that_lasts_longer_than_a_stretch_has_a_stretch_of_its_own() -> None:
    windows, _ = followed([0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1], step=4.0)
    assert windows.to_dict()["steps"] == [1.0, 1.0, 1.0]


def test_a_run_that_is_seen_once_alone_has_a_stretch() -> None:
    assert followed([300])[0].to_dict()["steps"] == [300.0]
