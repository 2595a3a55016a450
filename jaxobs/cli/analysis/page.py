"""A report as one HTML page: no script, nothing fetched, every text escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from jaxobs.cli.analysis.report import Report
from jaxobs.cli.analysis.table import bound_of, notes_of, where
from jaxobs.report.drawing import Element, Point, legend, markup, roofline, style
from jaxobs.report.units import ABSENT, amount, duration, or_absent, percent

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = """
body { background: var(--surface); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: .2rem .7rem .2rem 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--hair);
  vertical-align: top; }
th:first-child, td:first-child, .text { text-align: left; }
td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
.more { color: var(--quiet); font-size: 12px; }
"""
Column = tuple[str, str, Any]
"""Heading, style class, and what a row shows there."""

_DEVICES: Final[tuple[Column, ...]] = (
    ("device", "", lambda row: f"{row['host']} {row['name']}".strip()),
    ("kind", "text", lambda row: row["device_kind"] or ABSENT),
    ("span", "", lambda row: or_absent(row["span_seconds"], duration)),
    ("busy", "", lambda row: or_absent(row["busy_seconds"], duration)),
    ("idle", "", lambda row: or_absent(row["idle_seconds"], duration)),
    ("communication", "", lambda row: or_absent(row["collective_seconds"], duration)),
    ("exposed", "", lambda row: or_absent(row["exposed_communication_seconds"], duration)),
    ("transfer", "", lambda row: or_absent(row["transfer_seconds"], duration)),
    ("MFU", "", lambda row: or_absent(row["mfu"], percent)),
    ("HFU", "", lambda row: or_absent(row["hfu"], percent)),
)
_FIGURES: Final[tuple[Column, ...]] = (
    ("time", "", lambda row: or_absent(row["seconds"], duration)),
    ("share", "", lambda row: or_absent(row["share"], percent)),
    ("FLOP", "", lambda row: or_absent(row["flops"], amount)),
    ("bytes", "", lambda row: or_absent(row["bytes"], amount, "B")),
    ("FLOP/s", "", lambda row: or_absent(row["achieved_flops_per_second"], amount)),
    ("B/s", "", lambda row: or_absent(row["achieved_bytes_per_second"], amount)),
    ("FLOP/B", "", lambda row: or_absent(row["intensity"], amount)),
    ("efficiency", "", lambda row: or_absent(row["efficiency"], percent)),
)
_MODULES: Final[tuple[Column, ...]] = (
    ("module", "", lambda row: row["name"]),
    ("devices", "", lambda row: str(row["devices"])),
    ("runs", "", lambda row: ABSENT if row["runs"] is None else str(row["runs"])),
    *_FIGURES,
    ("bound", "text", lambda row: row["bound"] or ABSENT),
)
_SCOPES: Final[tuple[Column, ...]] = (
    ("scope", "", lambda row: row["scope"]),
    *_FIGURES,
    ("bound", "text", lambda row: row["bound"] or ABSENT),
)
_OPERATIONS: Final[tuple[Column, ...]] = (
    ("operation", "", lambda row: row["name"]),
    ("what", "text", lambda row: row["category"]),
    ("runs", "", lambda row: str(row["executions"])),
    *_FIGURES,
    ("bound", "text", bound_of),
)


def page(report: Report) -> str:
    """The whole page."""
    document = report.document
    title = f"Roofline of {report.source}"
    points = list(_points(document["operations"]))
    plot = roofline(report.roofs, points) if points else None
    notes = "".join(f"<li>{escape(note)}</li>" for note in notes_of(document))
    advice = "".join(
        f"<li>{escape(piece['sentence'])} {escape(piece['remedy'])}</li>" for piece in document["advice"]
    )
    body = [
        f"<h1>{escape(title)}</h1>",
        _drawn(plot, points)
        if plot is not None
        else "<p>No operation with known floating-point work and bytes: nothing to plot.</p>",
        _table("Devices", _DEVICES, document["devices"]),
        _table("Modules", _MODULES, document["modules"]),
        _table("Named scopes", _SCOPES, document["scopes"]),
        _table("Operations", _OPERATIONS, document["operations"], below=_particulars),
        f"<h2>Advice</h2>\n<ul>{advice}</ul>" if advice else "",
        f"<h2>Notes</h2>\n<ul>{notes}</ul>" if notes else "",
    ]
    head = (
        '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>{style()}{_STYLE}</style>"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body class="jaxobs">\n'
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


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


def _drawn(plot: Element, points: Sequence[Point]) -> str:
    names = dict.fromkeys(point.bottleneck for point in points)
    note = "The area of a dot is its share of the time; point at one to read more."
    return f"{markup(plot)}\n{markup(legend(names))}\n<p>{note}</p>"


def _particulars(row: Mapping[str, Any]) -> str:
    """Of an operation: its module, its source line, and why a figure is absent."""
    return "; ".join(text for text in (row["module"], where(row), row["reason"]) if text)


def _table(
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    below: Callable[[Mapping[str, Any]], str] = lambda row: "",
) -> str:
    """`below`: what is said of a row in small letters under its first cell, where a column would be too wide."""
    if not rows:
        return ""
    head = "".join(f"<th{_class(style)}>{escape(name)}</th>" for name, style, _ in columns)
    lines = (
        "<tr>"
        + "".join(
            f"<td{_class(style)}>{escape(show(row))}{_more(below(row)) if index == 0 else ''}</td>"
            for index, (_, style, show) in enumerate(columns)
        )
        + "</tr>"
        for row in rows
    )
    body = "\n".join(lines)
    return (
        f'<h2>{escape(title)}</h2>\n<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _more(text: str) -> str:
    return f'<div class="more">{escape(text)}</div>' if text else ""


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""
