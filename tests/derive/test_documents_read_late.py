"""A snapshot is written when it is read, and yet its document is of its own moment."""

from __future__ import annotations

from jaxobs.derive.fold import Fold
from jaxobs.model.events import (
    PROCESS_MEMORY,
    BackendFound,
    Compilation,
    MemorySampled,
    Recorded,
    SourceReported,
    StepCompleted,
)
from jaxobs.report.history import History
from tests.derive.made_up import at, new_fold, step


def fold_of_steps(first: int, last: int, fold: Fold) -> Fold:
    """Something of what comes in `first` to `last` seconds, to each room."""
    fold.apply(BackendFound("cpu", ((0, "cpu", "0"),), 0, 1, "", "", at(first)))
    for device in (0, PROCESS_MEMORY):
        fold.apply(MemorySampled(device, 2_000 + first, 3_000, 4_000, None, None, "", at(first + 1), None))
    for number, cause in ((first + 1, None), (first + 2, "shape")):
        fold.apply(Compilation("f", number, 1, at(first + 1), (), "off", cause, (), None))
    for number in range(first, last):
        fold.apply(step(number, number, number + 1))
        fold.apply(StepCompleted("train", number, at(number + 1), 0))
    fold.apply(Recorded("train", "loss", 0.5 + first, at(last)))
    fold.apply_own(SourceReported("test", "probe", first == 0, 0.1 * last, first, at(last), "", at(last)))
    return fold


def test_what_a_history_is_drawn_from_is_in_a_document() -> None:
    history = History()
    history.add(10.0, fold_of_steps(0, 8, new_fold()).snapshot(at(10)).document)
    assert {key[0] for key in history.trend().columns} == {"loops", "memory", "functions"}


def test_a_document_that_is_read_late_is_of_its_own_moment() -> None:
    read_at_once = fold_of_steps(0, 8, new_fold()).snapshot(at(10))
    document = read_at_once.to_dict()
    fold = fold_of_steps(0, 8, new_fold())
    read_late = fold.snapshot(at(10))
    assert fold_of_steps(8, 20, fold).snapshot(at(21)).to_dict() != document
    assert read_late.to_dict() == document
