from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jaxobs.report.record import WINDOWS_KEPT, StepWindows

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=400)


def followed(counts: list[int], step: float = 0.01) -> tuple[StepWindows, int]:
    windows, steps = StepWindows(), 0
    for second, count in enumerate(counts):
        steps += count
        loop = {"steps": steps, "wall_seconds": steps * step, "components": {"input": steps * step / 4}}
        windows.add(float(second), loop)
    return windows, steps


@given(COUNTS)
def test_stretches_add_up_to_what_was_seen_and_are_bounded(counts: list[int]) -> None:
    windows, steps = followed(counts)
    columns = windows.to_dict()
    told = [value or 0.0 for value in columns.get("steps", [])]
    assert len(told) <= WINDOWS_KEPT
    assert all(told), "a stretch without a step says nothing of steps"
    assert sum(told) <= steps
    if len(told) > 1 and counts[-1]:
        # What is left out is what has happened since the last stretch ended.
        assert steps - sum(told) <= sum(counts[-2 * len(counts) // min(WINDOWS_KEPT, len(counts)) - 1 :])


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
