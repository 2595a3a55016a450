"""A report as one HTML page: no script, nothing fetched, every text escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jaxobs.cli.analysis.report import Report
from jaxobs.cli.analysis.table import (
    DEVICE_FIGURES,
    DEVICE_NAME,
    MODULES,
    OPERATION_FIGURES,
    SCOPES,
    bound_of,
    notes_of,
    where,
)
from jaxobs.report.columns import Column, Row, text
from jaxobs.report.drawing import Element, Point, legend, markup, roofline, tag
from jaxobs.report.page.parts import parts_style, table, with_code
from jaxobs.vocabulary.units import amount, duration, or_absent, percent

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = """
body { background: var(--surface); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 75rem; padding: 0 1rem; }
.jaxobs {
  h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; } p { margin: 1em 0; } small { font-size: 12px; }
  table { width: auto; font-size: 13px; font-variant-numeric: tabular-nums; }
  th, td { padding: .2rem 0 .2rem .7rem; }
  th:first-child { text-align: left; }
  tbody th { white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
  td.text { white-space: nowrap; min-width: 0; }
}
"""


def _operation(row: Row) -> Element:
    """A cell with the name, and below it the module, source line and reason, which are too wide for columns."""
    particulars = "; ".join(words for words in (row["module"], where(row), row["reason"]) if words)
    return tag("div", row["name"], tag("div", tag("small", particulars)) if particulars else None)


_OPERATIONS: Final = (Column("operation", _operation), text("what", "category"), *OPERATION_FIGURES)


def page(report: Report) -> str:
    """A report as an HTML document."""
    title = f"Roofline of {report.source}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", title),
        tag("style", parts_style() + _STYLE),
    )
    body = tag("body", tag("h1", title), *_sections(report), class_="jaxobs")
    return f"<!DOCTYPE html>\n{markup(tag('html', head, body, lang='en'))}\n"


def _sections(report: Report) -> Iterator[Element]:
    document = report.document
    points = list(_points(document["operations"]))
    if (plot := roofline(report.roofs, points) if points else None) is not None:
        yield from (plot, legend(dict.fromkeys(point.bottleneck for point in points)))
        yield tag("p", "The area of a dot is its share of the time; point at one to read more.")
    else:
        yield tag("p", "No operation with known floating-point work and bytes: nothing to plot.")
    for title, columns, rows in (
        ("Devices", (DEVICE_NAME, *DEVICE_FIGURES), document["devices"]),
        ("Modules", MODULES, document["modules"]),
        ("Named scopes", SCOPES, document["scopes"]),
        ("Operations", _OPERATIONS, document["operations"]),
    ):
        if (shown := table(columns, rows, caption=title)) is not None:
            yield from (tag("h2", title), shown)
    advice = [f"{piece['sentence']} {piece['remedy']}" for piece in document["advice"]]
    for title, sentences in (("Advice", advice), ("Notes", notes_of(document))):
        if sentences:
            yield tag("h2", title)
            yield tag("ul", *(tag("li", *with_code(sentence)) for sentence in sentences))


def _points(operations: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    for row in operations:
        rate, near = row["achieved_flops_per_second"], row["efficiency"]
        if not row["intensity"] or not rate:
            continue
        about = (
            f"{row['name']} ({row['module'] or 'no module'})",
            f"{duration(row['seconds'])}, {or_absent(row['share'], percent)} of the time",
            f"{amount(rate, 'FLOP/s')} at {amount(row['intensity'])} FLOP/byte",
            f"efficiency {or_absent(near, percent)}, {row['label']}",
            str(row["source"] or ""),
        )
        yield Point(
            row["name"], "operation", row["intensity"], rate, row["share"] or 0.0, bound_of(row),
            "\n".join(line for line in about if line), rate / near if near else None,
        )  # fmt: skip
