"""The outline of a snapshot says of what is drawn over time the same as its document."""

from __future__ import annotations

from jaxobs.model.events import PROCESS_MEMORY, BackendFound, Compilation, MemorySampled, Recorded
from jaxobs.report.page import History
from tests.derive.made_up import at, new_fold, step


def test_an_outline_gives_the_same_history_as_the_document() -> None:
    fold = new_fold()
    fold.apply(BackendFound("cpu", ((0, "cpu", "0"),), 0, 1, "", "", at(0)))
    for device in (0, PROCESS_MEMORY):
        fold.apply(MemorySampled(device, 2_000, 3_000, 4_000, None, None, "", at(1), None))
    for number, cause in ((1, None), (2, "shape")):
        fold.apply(Compilation("f", number, 1, at(1), (), "off", cause, (), None))
    for number in range(8):
        fold.apply(step(number, number, number + 1))
    fold.apply(Recorded("train", "loss", 0.5, at(9)))
    snapshot = fold.snapshot(at(10))
    short, whole = History(), History()
    short.add(10.0, snapshot.outline)
    whole.add(10.0, snapshot.document)
    drawn = short.trend()
    assert drawn == whole.trend()
    assert {key[0] for key in drawn.columns} == {"loops", "memory", "functions"}
