"""What the fold of a new agent says of a job whose first agent was lost."""

from __future__ import annotations

import pytest

from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.derive.fold import Fold
from jaxobs.model.events import LoopEnded, PhaseEnded, ProbeReported
from jaxobs.model.metrics import Catalogue
from tests.derive.made_up import BEGAN, CLOCK, FACTS, RESOURCE, applied, at, run_seconds, step

LOST = 7_200.0  # seconds after the start of the job


def new_fold() -> Fold:
    facts = FACTS | {"counts_begin_seconds": LOST}
    return Fold(Catalogue(CORE_METRICS), CLOCK, BEGAN, RESOURCE, facts, 2_000)


def test_goodput_is_that_of_the_time_since_and_says_so() -> None:
    fold = new_fold()
    for number in range(60):
        end = LOST + number + 1
        applied(fold, [step(50_000 + number, end - 1, end), ProbeReported(number, 0, 0, 0, 0.0, at(end))])
    process = fold.snapshot(at(LOST + 60)).to_dict()["process"]
    assert process["seconds"] == LOST + 60
    assert process["run_seconds"]["productive"] == pytest.approx(60.0)
    assert process["goodput"] == pytest.approx(1.0)
    assert process["goodput_reason"] == (
        "of the time since 2 h after the start: the agent was lost, and with it what it had counted"
    )


def test_time_before_the_first_step_that_a_new_agent_hears_of_is_no_initialisation() -> None:
    fold = new_fold()
    assert run_seconds(fold, LOST + 5)["other"] == pytest.approx(5.0)
    applied(fold, [step(7, LOST + 6, LOST + 9), LoopEnded("train", at(LOST + 9), 0)])
    charged = run_seconds(fold, LOST + 10)
    assert charged["initialisation"] == 0
    assert charged["other"] == pytest.approx(7.0)
    assert sum(charged.values()) == pytest.approx(10.0)


def test_a_step_that_a_new_agent_hears_of_counts_as_far_as_it_lies_in_the_time_since() -> None:
    fold = applied(new_fold(), [step(7, LOST - 50, LOST + 9), LoopEnded("train", at(LOST + 9), 0)])
    run_seconds(fold, LOST + 9)
    charged = run_seconds(fold, LOST + 30)
    assert charged["productive"] == pytest.approx(9.0)
    assert charged["other"] == pytest.approx(21.0)


def test_a_phase_that_a_new_agent_hears_of_counts_as_far_as_it_lies_in_the_time_since() -> None:
    fold = applied(new_fold(), [PhaseEnded("checkpoint", None, at(LOST - 600), at(LOST + 10), 0)])
    charged = run_seconds(fold, LOST + 700)
    assert (charged["checkpoint"], charged["other"]) == (pytest.approx(10.0), pytest.approx(690.0))
