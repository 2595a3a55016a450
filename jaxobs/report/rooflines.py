"""What a roofline shows: a roof for each kind of device and element type, a point for each executable and operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from jaxobs.model.contents import last_name
from jaxobs.model.snapshot import Document
from jaxobs.report.charts import LogScale
from jaxobs.report.tables import Row, label_of
from jaxobs.roofline_model.bounds import Roof
from jaxobs.vocabulary.units import amount, duration, percent


class Point(NamedTuple):
    """A measured executable or operation in a roofline. `intensity` and `rate` are above 0."""

    name: str
    kind: Literal["executable", "operation"]
    intensity: float
    """FLOP/byte."""
    rate: float
    """FLOP/s."""
    share: float
    """Its share of the time of all points of its kind, 0 to 1, drawn as its area."""
    bottleneck: str
    """A word of docs/how_it_works/bottlenecks.md, drawn as its colour."""
    about: str
    """Lines of text that are shown under the pointer."""
    attainable: float | None = None
    """FLOP/s at its bound time; under the pointer a line is drawn up to it."""


MIN_POINT: Final = 0.002
"""Share of device time below which an operation is not drawn, as it would stretch the axes; the table has it."""


def roofs_of(document: Document) -> list[Roof]:
    """The roofs of each kind of device, for the element types that were seen."""
    found: dict[tuple[str, str], Roof] = {}
    for device in document.get("devices") or ():
        for roof in device.get("roofs") or ():
            key = str(device.get("kind")), roof["dtype"]
            found.setdefault(key, Roof(*key, roof["flops_per_second"], roof["bytes_per_second"]))
    return list(found.values())


def points_of(document: Document) -> list[Point]:
    """The executables and operations with a known intensity and a measured time, as points."""
    executables, operations = document.get("executables") or [], document.get("operations") or []
    return [*_executables(executables), *operation_points(operations)]


def _executables(rows: Sequence[Row]) -> Iterator[Point]:
    whole = sum(row.get("seconds") or 0.0 for row in rows)
    for row in rows:
        intensity, rate = (row.get("cost") or {}).get("intensity"), row.get("achieved_flops_per_second")
        if intensity and rate:
            name, label = str(row.get("function")), label_of(row.get("bottleneck"))
            share = (row.get("seconds") or 0.0) / whole if whole else 0.0
            named = f"{name}  {str(row.get('executable'))[:8]}"
            per_run = row.get("seconds_per_run")
            took = f"{duration(per_run)} a run" if per_run is not None else None
            about = _about(row, intensity, rate, label, (named,), took)
            attainable = row.get("attainable_flops_per_second")
            yield Point(name, "executable", intensity, rate, share, label, about, attainable)


def operation_points(rows: Sequence[Row]) -> Iterator[Point]:
    """The operations that took at least MIN_POINT of the device's time, if intensity and rate are known."""
    for row in rows:
        intensity, rate = row.get("intensity"), row.get("achieved_flops_per_second")
        share = row.get("share") or 0.0
        if intensity and rate and share >= MIN_POINT:
            name, label = str(row.get("operation")), str(row.get("bottleneck") or "unknown")
            named = (f"{name} in {row.get('function')}", row.get("scope"), last_name(row.get("source")))
            about = _about(row, intensity, rate, label, named, f"{percent(share)} of device time")
            attainable = rate / row["efficiency"] if row.get("efficiency") else None
            yield Point(name, "operation", intensity, rate, share, label, about, attainable)


def _about(
    row: Row, intensity: float, rate: float, label: str, named: Iterable[str | None], took: str | None
) -> str:
    lines = (
        *named,
        f"{amount(rate, 'FLOP/s')} at {amount(intensity, 'FLOP/byte')}",
        f"efficiency {percent(row['efficiency'])}" if row.get("efficiency") is not None else None,
        f"limited by {label}" if label != "unknown" else None,
        took,
    )
    return "\n".join(filter(None, lines))


MARGIN: Final = 0.35
"""Decades left free around what is drawn."""


def axes(
    roofs: Sequence[Roof], points: Sequence[Point], across: tuple[float, float], up: tuple[float, float]
) -> tuple[LogScale, LogScale]:
    """The axes of intensities and of rates around all that is drawn; `across` and `up` are where they start and end."""
    intensities = [*(point.intensity for point in points), *(roof.ridge for roof in roofs)]
    scale = LogScale.around(intensities, MARGIN, *across)
    low = scale.value(scale.start)
    rates = [rate for roof in roofs for rate in (roof.at(low), roof.flops_per_second)]
    rates += [rate for point in points for rate in (point.rate, point.attainable) if rate]
    return scale, LogScale.around(rates, MARGIN, *up)


def why_incomplete(document: Document, points: Sequence[Point]) -> Iterator[str]:
    """A sentence for each thing that is missing from the roofline."""
    if not points:
        yield "No executable has a known intensity and a measured time."
    if not any(device.get("roofs") for device in document.get("devices") or ()):
        reasons = dict.fromkeys(device.get("peaks_reason") for device in document.get("devices") or ())
        yield from (f"No roof: {reason}." for reason in reasons if reason)
    if not any(point.kind == "operation" for point in points) and document.get("operations_reason"):
        yield f"No operations: {document['operations_reason']}."
