"""`jaxobs analyze`: shows a profiler trace as operations on the roofline, without the device that made it."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jaxobs.cli import say, using
from jaxobs.cli.console import Parser, write_output
from jaxobs.cli.terminal import look_of
from jaxobs.report import flame_graph
from jaxobs.report.flame_graph import LINES, dearest, in_words
from jaxobs.report.markup import Element, card, legend, quiet, table, tag, whole_page, with_code
from jaxobs.report.page import what_to_do
from jaxobs.report.pprof import profile
from jaxobs.report.roofline_chart import roofline
from jaxobs.report.rooflines import operation_points
from jaxobs.report.sentence import without_quotes
from jaxobs.report.tables import Column, Row, figure, name, plain_table, text
from jaxobs.report.text_table import TextTable, cut, end_of, first_of, to_text, wrapped
from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.units import amount, count, duration, percent

if TYPE_CHECKING:
    from jaxobs.roofline_model.bounds import Roof

SUMMARY = "show a profiler trace: each operation's time, work, efficiency and source line"

_PEAKS = (
    "Peaks: JAXOBS_PEAK_FLOPS and JAXOBS_PEAK_BYTES_PER_SECOND first, then the data sheet of the device kind, then for "
    "a trace of this host what `jaxobs calibrate` measured, then what the trace says."
)


def run(arguments: list[str]) -> int:
    """Print the analysis of a trace."""
    from jaxobs.trace.reading import trace_files

    options = _options(arguments)
    options.path = options.path or _newest_trace()
    document, roofs = _analyze(options.path, options.maximum_bytes)
    with using(options.path):
        html = page(document, roofs) if options.html is not None else ""
        profiled = profile(document["device_time"]["by_line"]) if options.pprof is not None else b""
        if options.json:
            shown = json.dumps(document, indent=2, allow_nan=False)
        elif written := [name for name in (options.html, options.pprof) if name is not None]:
            shown = f"wrote {' and '.join(written)}"
        else:
            shown = report_text(document, top=options.top, **look_of(sys.stdout))
    for path, content in ((options.html, html.encode()), (options.pprof, profiled)):
        if path is not None:
            write_output(Path(path), content, trace_files(Path(options.path)))
    print(shown)
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    from jaxobs.trace import DEFAULT_MAXIMUM_BYTES

    parser = Parser("analyze", SUMMARY, _PEAKS)
    parser.add_argument(
        "path", metavar="PATH", nargs="?",
        help="a file *.xplane.pb, or the directory given to jax.profiler.trace() (default: the last run's newest trace)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--html", metavar="FILE", help="write one self-contained page with a roofline plot")
    parser.add_argument("--pprof", metavar="FILE", help="write device time by call path for `go tool pprof`")
    parser.add_argument(
        "--top", metavar="N", type=_count, default=20, help="operations shown in the table (default: %(default)s)"
    )  # fmt: skip
    parser.add_argument(
        "--maximum-bytes", metavar="N", type=_count, default=DEFAULT_MAXIMUM_BYTES,
        help="the largest trace of one host that is read (default: %(default)s)",
    )  # fmt: skip
    return parser.options(arguments)


def _newest_trace() -> str:
    from jaxobs.cli.show import read_record
    from jaxobs.report.runs import traces

    record = read_record("last")
    if not (found := traces(record.path.parent)):
        cure = "give a path, or ask for one by obs.profile(2.0, keep=True)"
        raise InputError(f"{record.name} has kept no trace: {cure}")
    return str(found[-1])


def _count(value: str) -> int:
    if not value.isascii() or not value.isdecimal() or not int(value):
        raise argparse.ArgumentTypeError(f"{value!r}: give a positive whole number")
    return int(value)


def _analyze(path: str, maximum_bytes: int) -> Any:
    from jaxobs.cli.trace_report import build_report, peaks_of
    from jaxobs.config import load_settings
    from jaxobs.plugin.custom_calls import load_rules
    from jaxobs.trace import read_trace

    try:
        settings = load_settings().to_dict()
        trace = read_trace(Path(path), maximum_bytes=maximum_bytes)
        peaks = {}
        for host in trace.hosts:
            jaxlib, alike = host.versions.get("jaxlib_version"), Counter(one.platform for one in host.devices)
            for device in host.devices:
                peaks[host.name, device.name] = peaks_of(device, settings, jaxlib, alike[device.platform])
    except ValueError as error:
        raise InputError(str(error)) from None
    rules = load_rules(lambda problem: say("jaxobs analyze", problem))
    with using(path):
        return build_report(path, trace, peaks, rules)


def bound_of(row: Row) -> str:
    """The bound of an operation; `cache_resident` where it would be memory, but the data was in cache."""
    return "cache_resident" if row["bound"] == "cache_resident" else str(row["label"])


def where(row: Row) -> str:
    """The source line with the last folder of its path, or else the named scope."""
    path = re.split(r"[\\/]", row["source"])
    return "/".join(path[-2:]) if row["source"] else str(row["scope"])


DEVICE_NAME: Final = Column("device", lambda row: f"{row['host']} {row['name']}".strip(), text=True)
DEVICE_FIGURES: Final = (
    text("kind", "device_kind"),
    figure("span", "span_seconds", duration),
    figure("busy", "busy_seconds", duration),
    figure("idle", "idle_seconds", duration),
    figure("communication", "collective_seconds", duration),
    figure("exposed", "exposed_communication_seconds", duration),
    figure("transfer", "transfer_seconds", duration),
    figure("MFU", "mfu", percent),
    figure("HFU", "hfu", percent),
)
_FIGURES: Final = (
    figure("time", "seconds", duration),
    figure("share", "share", percent),
    figure("FLOP", "flops", amount),
    figure("bytes", "bytes", lambda size: amount(size, "B")),
    figure("FLOP/s", "achieved_flops_per_second", amount),
    figure("B/s", "achieved_bytes_per_second", amount),
    figure("FLOP/B", "intensity", amount),
    figure("efficiency", "efficiency", percent),
)
MODULES: Final = (
    name("module", "name"),
    figure("devices", "devices", str),
    figure("runs", "runs", str),
    *_FIGURES,
    text("bound", "bound"),
)
OPERATION_FIGURES = (figure("runs", "executions", str), *_FIGURES, Column("bound", bound_of, text=True))


_MAX_NAME = 24
"""Most letters of an operation's name, and of its source, in a text."""
_IN_A_TEXT = (
    Column("operation", lambda row: cut(row["name"], _MAX_NAME), text=True),
    *OPERATION_FIGURES,
    Column("source", lambda row: end_of(where(row), _MAX_NAME), text=True),
)
"""The columns of operations in a text: figures in full, names and sources shortened."""
_LINES = 10
"""Most lines of the program in a text."""
_NAMES = 3
"""Most operations that a note names."""

SLOW_WORK = "far longer than its FLOPs and bytes take: it does other work, such as comparisons, or is slow"
"""Why an operation is `unmodelled` whose FLOPs and bytes are known."""

MIN_OVERLAP = 1.01
"""Ratio of the operations' own times to the busy time above which a note mentions the overlap: less is not visible."""


def report_text(document: Mapping[str, Any], *, top: int, width: int, bold: bool) -> str:
    """The text of a report: devices, modules, the `top` operations by time, and notes."""
    several = len({device["host"] for device in document["devices"]}) > 1
    device_name = DEVICE_NAME if several else text("device", "name")
    parts: list[TextTable | str] = [_table((device_name, *DEVICE_FIGURES), document["devices"], {"HFU"}), ""]
    if document["modules"]:
        parts += [_table(MODULES, document["modules"], {"FLOP/s", "B/s", "FLOP/B"}), ""]
    parts += [_table(_IN_A_TEXT, document["operations"][:top], {"FLOP", "bytes", "B/s"})]
    hidden = len(document["operations"]) - top
    if hidden > 0:
        rest = sum(row["share"] or 0.0 for row in document["operations"][top:])
        parts.append(f"and {count(hidden, 'operation')} with {percent(rest)} of the busy time (--top)")
    parts += _lines(document, min(top, _LINES), width)
    named: dict[tuple[str, str], dict[str, None]] = {}
    for row in document["operations"][:top]:
        name = cut(row["name"], _MAX_NAME)
        if (row["efficiency"] or 0.0) > 1:
            named.setdefault(("efficiency above 100 %", row["efficiency_reason"]), {})[name] = None
        elif row["label"] == "unmodelled":
            named.setdefault(("without a known cost", row["reason"] or SLOW_WORK), {})[name] = None
    told = (f"{what}, {first_of(list(names), _NAMES)}: {reason}" for (what, reason), names in named.items())
    if notes := notes_of(document) + [line for note in told for line in wrapped(note, width)]:
        parts += ["", *notes]
    return to_text(parts, width=width, bold=bold)


def notes_of(document: Mapping[str, Any]) -> list[str]:
    """Notes on what could not be seen, was left out, or is missing, each once."""
    notes = [note for host in document["hosts"] for note in host["notes"]]
    for device in document["devices"]:
        notes += [f"{device['name']}: {note}" for note in device["notes"]]
        if device["peaks"]["reason"]:
            notes.append(device["peaks"]["reason"])
        if (sharing := device["peaks"].get("shared_by", 1)) > 1:
            notes.append(f"{sharing} emulated devices share one machine: MFU and efficiency are of shares")
    if share := document["unmodelled_share"]:
        notes.append(f"{percent(share)} of the busy time is in operations without a known cost")
    own = sum(row["self_seconds"] for row in document["operations"])
    if own > MIN_OVERLAP * document["busy_seconds"]:
        notes.append(
            "operations ran side by side: each moment is divided equally between them, so that times add up to the busy "
            "time; FLOP/s and efficiency are over these parts"
        )
    return list(dict.fromkeys(notes))


def _lines(document: Mapping[str, Any], top: int, width: int) -> Iterator[TextTable | str]:
    """The lines with the most device time, and the first of them in a sentence; nothing where none is known."""
    rows = document["device_time"]["by_line"]
    if (said := in_words(rows)) is not None:
        yield from ("", _table(LINES, dearest(rows)[:top], {"FLOP", "bytes"}), "")
        yield from wrapped(without_quotes(said), width)


def _table(columns: Sequence[Column], rows: Sequence[Row], left_out: Set[str]) -> TextTable:
    """A table of rows; `left_out` are the titles of columns for which only the page has room."""
    return plain_table([column for column in columns if column.title not in left_out], rows)


def _operation(row: Row) -> str:
    """A cell with the name, and below it the module, source line and reason, which are too wide for columns."""
    particulars = "; ".join(words for words in (row["module"], where(row), row["reason"]) if words)
    return f"{row['name']}\n{particulars}" if particulars else str(row["name"])


_OPERATIONS = (Column("operation", _operation, text=True), text("what", "category"), *OPERATION_FIGURES)


def page(document: Mapping[str, Any], roofs: Sequence[Roof]) -> str:
    """A report as an HTML document."""
    title = f"Roofline of {document['source']}"
    main = tag("main", tag("header", tag("h1", title)), *_sections(document, roofs))
    return whole_page(title, main)


def _sections(document: Mapping[str, Any], roofs: Sequence[Roof]) -> Iterator[Element]:
    rows = [
        {**row, "operation": row["name"], "function": row["module"], "bottleneck": bound_of(row)}
        for row in document["operations"]
    ]
    points = list(operation_points(rows))
    drawn, said = [], "No operation with known floating-point work and bytes: nothing to plot."
    if points:
        drawn = [roofline(roofs, points), legend(dict.fromkeys(point.bottleneck for point in points))]
        said = "The area of a dot is its share of the time; point at one to read more."
    yield card("Roofline", *drawn, quiet(said), name="roofline")
    if rows:
        by_line = flame_graph.sections(document["device_time"])
        yield card("Device time by line", *by_line, name="lines")
    for title, columns, found in (
        ("Devices", (DEVICE_NAME, *DEVICE_FIGURES), document["devices"]),
        ("Modules", MODULES, document["modules"]),
        ("Operations", _OPERATIONS, document["operations"]),
    ):
        if (shown := table(columns, found, caption=title)) is not None:
            yield card(title, shown, name=title.lower())
    if (advised := what_to_do(document)) is not None:
        yield advised
    if notes := [tag("li", *with_code(note)) for note in notes_of(document)]:
        yield card("Notes", tag("ul", *notes, class_="plain"), name="notes")
