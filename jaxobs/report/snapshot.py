"""The snapshot as users hold it: the plain data with its summary, and its pictures in a notebook."""

from __future__ import annotations

from jaxobs.model.clock import now
from jaxobs.model.snapshot import SnapshotData, absent_document
from jaxobs.report.sentence import without_quotes
from jaxobs.report.summary import render
from jaxobs.report.text_table import PLAIN_WIDTH
from jaxobs.report.view import View, answer
from jaxobs.vocabulary.text import printable


class Snapshot(SnapshotData):
    """What was known at `time` (monotonic nanoseconds).

    `document` is plain data with the keys `process`, `loops`, `slowdowns`, `hangs`, `functions`, `executables`,
    `operations`, `device_time`, `memory_peaks`, `devices`, `sources`, `advice` and `agent`; a value that is
    not known is None and has a sibling `…_reason`.
    `print(snapshot)` shows a summary.
    """

    __slots__ = ()

    def summary(self, width: int = PLAIN_WIDTH) -> str:
        """Tables of the loops, the compiled functions and the largest executables, as plain text.

        Tables and sentences have `width` columns at most, as far as a table can be so narrow. What is not known is shown
        as `–`, with the reason below the tables, in a line of its own however long it is.
        """
        return render(self.document, width=width)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        said = printable(without_quotes(answer(View(self.document))))
        return f"<Snapshot: {said} print() shows more, .to_dict() has everything>"

    def _repr_html_(self) -> str:
        """Pictures and tables, where a notebook shows the object."""
        from jaxobs.report.notebook import snapshot_html

        return snapshot_html(self.document)


def absent_snapshot(reason: str) -> Snapshot:
    """A snapshot in which everything is absent, for one reason."""
    return Snapshot(now(), absent_document(reason))
