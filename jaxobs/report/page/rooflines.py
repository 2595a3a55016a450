"""The section of the roofline: a chart of roofs, executables and large operations, and tables of the latter two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from jaxobs.model.snapshot import Document
from jaxobs.report.columns import Row, last_name
from jaxobs.report.columns.executables import EXECUTABLES, OPERATIONS, label_of
from jaxobs.report.drawing import Element, Point, Roof, legend, roofline
from jaxobs.report.page.parts import card, folded, quiet, table
from jaxobs.report.page.view import View
from jaxobs.vocabulary.units import amount, duration, percent

_ROWS: Final = 40
"""Rows of each table; the rest are in the snapshot."""

_LEAST_SHARE: Final = 0.002
"""Share of device time below which an operation is not drawn, as it would stretch the axes; the table has it."""


def nearness(view: View) -> Element | None:
    """The section; None where no executable or operation is known."""
    executables, operations = view.document.get("executables") or [], view.document.get("operations") or []
    if not executables and not operations:
        return None
    points = points_of(view.document)
    return card(
        "Roofline",
        roofline(roofs_of(view.document), points) if points else None,
        legend(dict.fromkeys(point.bottleneck for point in points)) if points else None,
        quiet(*why_incomplete(view.document, points)),
        folded(
            f"Executables ({len(executables)})",
            table(EXECUTABLES, executables[:_ROWS], caption="Executables", more=_more(executables)),
            name="executables-table",
        ),
        folded(
            f"Operations ({len(operations)})",
            table(OPERATIONS, operations[:_ROWS], caption="Operations", more=_more(operations)),
            name="operations-table",
        ),
        name="roofline",
        note="how near to what the device can do" if points else "",
    )


def roofs_of(document: Document) -> list[Roof]:
    """The roofs of each kind of device, for the element types that were seen."""
    found: dict[tuple[str, str], Roof] = {}
    for device in document.get("devices") or ():
        for roof in device.get("roofs") or ():
            kind, dtype = str(device.get("kind")), roof["dtype"]
            found.setdefault(
                (kind, dtype), Roof(kind, dtype, roof["flops_per_second"], roof["bytes_per_second"])
            )
    return list(found.values())


def points_of(document: Document) -> list[Point]:
    """The executables and operations with a known intensity and a measured time, as points."""
    executables, operations = document.get("executables") or [], document.get("operations") or []
    return [*_executables(executables), *_operations(operations)]


def _executables(rows: Sequence[Row]) -> Iterator[Point]:
    whole = sum(row.get("seconds") or 0.0 for row in rows)
    for row in rows:
        intensity = (row.get("cost") or {}).get("intensity")
        rate = row.get("achieved_flops_per_second")
        if not intensity or not rate:
            continue
        label = label_of(row.get("bottleneck"))
        per_run = row.get("seconds_per_run")
        lines = [
            f"{row.get('function')}  {str(row.get('executable'))[:8]}",
            f"{amount(rate, 'FLOP/s')} at {amount(intensity, 'FLOP/byte')}",
            f"efficiency {percent(row['efficiency'])}" if row.get("efficiency") is not None else None,
            f"limited by {label}" if label != "unknown" else None,
            f"{duration(per_run)} a run" if per_run is not None else None,
        ]
        yield Point(
            str(row.get("function")), "executable", intensity, rate,
            (row.get("seconds") or 0.0) / whole if whole else 0.0, label,
            "\n".join(line for line in lines if line), row.get("attainable_flops_per_second"),
        )  # fmt: skip


def _operations(rows: Sequence[Row]) -> Iterator[Point]:
    for row in rows:
        intensity, rate = row.get("intensity"), row.get("achieved_flops_per_second")
        efficiency = row.get("efficiency")
        if not intensity or not rate or (row.get("share") or 0.0) < _LEAST_SHARE:
            continue
        label = str(row.get("bottleneck") or "unknown")
        lines = [
            f"{row.get('operation')} in {row.get('function')}",
            str(row["scope"]) if row.get("scope") else None,
            last_name(row.get("source")),
            f"{amount(rate, 'FLOP/s')} at {amount(intensity, 'FLOP/byte')}",
            f"efficiency {percent(efficiency)}" if efficiency is not None else None,
            f"limited by {label}" if label != "unknown" else None,
            f"{percent(row['share'])} of device time" if row.get("share") is not None else None,
        ]
        yield Point(
            str(row.get("operation")), "operation", intensity, rate, row.get("share") or 0.0, label,
            "\n".join(line for line in lines if line), rate / efficiency if efficiency else None,
        )  # fmt: skip


def why_incomplete(document: Document, points: Sequence[Point]) -> Iterator[str]:
    """A sentence for each thing that is missing from the roofline."""
    if not points:
        yield "No executable has a known intensity and a measured time yet."
    if not any(device.get("roofs") for device in document.get("devices") or ()):
        reasons = (device.get("peaks_reason") for device in document.get("devices") or ())
        yield from (f"No roof: {reason}." for reason in reasons if reason)
    if not any(point.kind == "operation" for point in points) and document.get("operations_reason"):
        yield f"No operations: {document['operations_reason']}."


def _more(rows: Sequence[Row]) -> str:
    return f"{len(rows) - _ROWS} smaller ones are in the snapshot." if len(rows) > _ROWS else ""
