"""The folded state of the training process at one moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jaxobs.model.clock import now
from jaxobs.model.figure import Figure
from jaxobs.model.metrics import Family
from jaxobs.report.summary import digest, render
from jaxobs.report.text_table import PLAIN_WIDTH


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """What was known at `time` (monotonic nanoseconds).

    `document` is plain data with the keys `process`, `loops`, `functions`, `executables`, `operations`, `scopes`,
    `devices`, `sources`, `advice` and `agent`; a value that is not known is None and has a sibling `…_reason`. `families`
    are the metrics for exporters; a snapshot that came from another process has none. `print(snapshot)` shows a summary.
    """

    time: int
    written: Mapping[str, Any] | Callable[[], Mapping[str, Any]]
    """The document, or a function that makes it, because most documents are never read."""
    families: tuple[Family, ...] = field(default=(), repr=False)
    outlined: Callable[[], Mapping[str, Any]] | None = None
    """A function that makes the outline alone; None where the document exists already."""

    @property
    def document(self) -> Mapping[str, Any]:
        """The snapshot as plain data; made when first requested, on the thread that requests it."""
        written = self.written  # read once: another thread may write it meanwhile
        if callable(written):
            written = written()
            object.__setattr__(self, "written", written)
        return written

    @property
    def outline(self) -> Mapping[str, Any]:
        """The parts of the document that are drawn over time: loops, memory, and the recompiles of each function."""
        return self.document if self.outlined is None else self.outlined()

    def to_dict(self) -> dict[str, Any]:
        """A copy of the document that the caller may change."""
        copied: dict[str, Any] = json.loads(self.to_json())
        return copied

    def to_json(self, indent: int | None = None) -> str:
        """The document as strict JSON (no NaN or infinity). Raises ValueError if one is in it: that is a defect."""
        return json.dumps(self.document, indent=indent, allow_nan=False)

    def summary(self, width: int = PLAIN_WIDTH) -> str:
        """Tables of the loops, the compiled functions and the largest executables, as plain text of `width` columns.

        What is not known is shown as `–`, with the reason below the tables.
        """
        return render(self.document, width=width)

    def served_no_more(self) -> Snapshot:
        """This snapshot without the address of `/metrics`, for a job that is over."""
        process = self.document.get("process")
        if not process or not process.get("address"):
            return self
        over = Figure(None, f"the job is over; metrics were at {process['address']}").under("address")
        return replace(self, written={**self.document, "process": {**process, **over}})

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<Snapshot {digest(self.document)}; print() shows more, .to_dict() has everything>"

    def _repr_html_(self) -> str:
        """Pictures and tables, where a notebook shows the object."""
        from jaxobs.report.notebook import snapshot_html

        return snapshot_html(self.document)

    def __getitem__(self, key: str) -> Any:
        return self.document[key]


DOCUMENT_KEYS = (
    "process", "loops", "functions", "executables", "operations", "scopes", "devices", "sources", "advice", "agent",
)  # fmt: skip
"""The keys of every snapshot's document."""


def absent_snapshot(reason: str) -> Snapshot:
    """A snapshot in which everything is absent, for one reason."""
    document: dict[str, Any] = {}
    for key in DOCUMENT_KEYS:
        document |= Figure(None, reason).under(key)
    return Snapshot(now(), document)
