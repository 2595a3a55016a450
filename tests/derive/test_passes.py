"""What is charged while a loop is entered, between its steps, and when it is entered again."""

from __future__ import annotations

import pytest

from jaxobs.model.events import LoopEnded, LoopEntered, ProbeReported
from tests.derive.made_up import applied, at, new_fold, run_seconds, step


def test_the_first_step_of_each_pass_is_known_to_be_under_way() -> None:
    """Ten epochs: a wait of ten seconds for workers that start, then steps of a tenth of a second."""
    fold = new_fold()
    for epoch in range(10):
        began = 10.0 + 20.0 * epoch
        fold.apply(LoopEntered("train", at(began)))
        for second in range(1, 11):
            applied(fold, [ProbeReported(0, 0, 0, 0, 0.0, at(began + second))]).snapshot(at(began + second))
        fold.apply(step(100 * epoch, began, began + 10.1, wait=10.0))
        applied(
            fold, [step(100 * epoch + i, began + 10 + i / 10, began + 10.1 + i / 10) for i in range(1, 100)]
        )
        applied(fold, [LoopEnded("train", at(began + 20), 0), ProbeReported(0, 0, 0, 0, 0.0, at(began + 20))])
    charged = run_seconds(fold, 210.0)
    assert charged["input"] == pytest.approx(100.0)
    assert charged["initialisation"] == pytest.approx(10.0)
    assert charged["productive"] == pytest.approx(100.0)
