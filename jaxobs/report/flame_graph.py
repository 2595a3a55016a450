"""Device time by call path: as a flame graph, as a table of the lines that take most of it, and in a sentence.

`rows` are those of a tree in a snapshot's `device_time` (docs/reference/snapshot.md): each before what it calls. The
main thread's sampled time is drawn in the same form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from jaxobs.model.contents import last_name
from jaxobs.model.cost import BACKWARD, FORWARD, ITSELF, REMATERIALIZED
from jaxobs.report.charts import part
from jaxobs.report.markup import Element, chart, folded, legend, quiet, table, tag
from jaxobs.report.sentence import DOING
from jaxobs.report.tables import Column, Row, figure, text
from jaxobs.vocabulary import activities
from jaxobs.vocabulary.units import amount, byte_size, count, duration, or_absent, percent, rough_percent

PARTS: Final = {
    **{f"({name})": name for name in (FORWARD, BACKWARD, REMATERIALIZED)},
    ITSELF.function: "itself",
}
"""Leaves that are no line and no scope, but a part of the one above them; and how they are called there."""

_HEIGHT: Final = 20
_MIN_WIDTH: Final = 0.001
_ROOM_FOR_A_NAME: Final = 0.06
"""Shares of the width below which a frame is not drawn, and has no name in it: a pixel, and three letters on a phone."""

LARGER, SMALLER, ALIKE = "larger", "smaller", "alike"
SAME: Final = 0.005
"""Share of device time by which a frame of two runs may differ and still be drawn as alike: what is shown of it."""

_COLOURS: Final = {
    activities.INPUT: "input", activities.MARKED_INPUT: "input", activities.COMPILE: "compile",
    activities.DEVICE: "unknown", activities.UNKNOWN: "unknown",
}  # fmt: skip
"""Components in whose colour a frame of the host is drawn, by activity; all else is the host's own."""
_WAITS_OR_UNKNOWN: Final = "waiting for the device, or not known"

Path = tuple[tuple[str, str], ...]
"""The function and the file's name of each frame, outermost first."""

MAX_LINES: Final = 40
MAX_CALLERS: Final = 2


def name_of(row: Row) -> str:
    """A frame in words, such as `attention model.py:118`."""
    function = str(row["name"]).rpartition("<locals>.")[2]
    return f"{function} {_place(row)}".strip() if row["file"] else function


def _place(row: Row) -> str:
    return f"{last_name(row['file'])}:{row['line']}"


def leaves(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """The path to each leaf of the tree, outermost first; the leaves' seconds add up to all of it."""
    path: list[Row] = []
    for row, following in pairwise([*rows, {"depth": 0}]):
        path = [*path[: row["depth"]], row]
        if following["depth"] <= row["depth"]:
            yield path


def part_of(path: Sequence[Row]) -> str | None:
    """The part of the line above it that the leaf of a path is; None where it is a line of its own."""
    return PARTS.get(path[-1]["name"]) if len(path) > 1 else None


def operations_of(leaf: Row) -> list[Row]:
    """The largest operations of a leaf; none that the leaf itself is named by."""
    return [operation for operation in leaf.get("operations", ()) if operation["name"] != leaf["name"]]


def dearest(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The lines, or scopes, with the most time of their own, from wherever they are called.

    `callers` are those of the path with the most of it, innermost first, beside `more_paths`.
    """
    found: dict[object, dict[str, Any]] = {}
    for path in leaves(rows):
        *callers, line, leaf = path if part_of(path) else (*path, path[-1])
        # A line is the same on each path, but a scope is its whole path.
        key = (line["name"], line["file"], line["line"]) if line["file"] else id(line)
        known = found.setdefault(key, {**line, "leaves": [], "paths": {}})
        known["leaves"].append(leaf)
        before, _ = known["paths"].get(id(line), (0.0, callers))
        known["paths"][id(line)] = (before + leaf["seconds"], callers[::-1])
    return sorted(map(_summed, found.values()), key=lambda line: -line["seconds"])


def _summed(line: dict[str, Any]) -> dict[str, Any]:
    """The line with the figures of its own leaves; absent where that of one of them is."""
    own: list[Row] = line.pop("leaves")
    paths = line.pop("paths").values()
    line["callers"], line["more_paths"] = max(paths, key=lambda path: path[0])[1], len(paths) - 1
    for key in ("seconds", "share", "flops", "bytes"):
        known = [leaf[key] for leaf in own if leaf[key] is not None]
        line[key] = sum(known) if len(known) == len(own) else None
    near = [leaf["efficiency"] and leaf["efficiency"] * leaf["seconds"] for leaf in own]
    line["efficiency"] = sum(near) / line["seconds"] if None not in near and line["seconds"] else None
    limits, parts = defaultdict[str, float](float), defaultdict[str, float](float)
    for leaf in own:
        limits[leaf["bottleneck"]] += leaf["seconds"]
        if leaf["name"] in PARTS and leaf["share"]:
            parts[PARTS[leaf["name"]]] += leaf["share"]
    line["bottleneck"], line["parts"] = max(limits, key=limits.__getitem__), dict(parts)
    return line


def shares_by_path(rows: Sequence[Row]) -> dict[Path, float]:
    """The share of device time of each path of frames. Without numbers of lines, which an edit above them moves."""
    whole = sum(row["seconds"] for row in rows if not row["depth"])
    found: defaultdict[Path, float] = defaultdict(float)
    for row, path in zip(rows, _paths(rows), strict=True):
        found[path] += row["seconds"] / whole if whole > 0 else 0.0
    return dict(found)


def _paths(rows: Sequence[Row]) -> Iterator[Path]:
    path: Path = ()
    for row in rows:
        path = (*path[: row["depth"]], (row["name"], last_name(row["file"])))
        yield path


def shares_by_function(rows: Sequence[Row]) -> dict[str, float]:
    """The share of device time of each function itself, from wherever it is called, such as `attention model.py`."""
    found: defaultdict[str, float] = defaultdict(float)
    for line in dearest(rows):
        if line["file"] and line["share"]:
            found[f"{name_of({**line, 'file': ''})} {last_name(line['file'])}".strip()] += line["share"]
    return dict(found)


def _callers(row: Row) -> str:
    shown = [name_of(caller) for caller in row["callers"][:MAX_CALLERS]]
    near = " ← ".join([*shown, "…"] if len(row["callers"]) > MAX_CALLERS else shown)
    return f"{near}{_more_paths(row)}".strip()


def _more_paths(row: Row) -> str:
    return f" and {count(row['more_paths'], 'more path')}" if row["more_paths"] else ""


def _parts(row: Row) -> str:
    return ", ".join(f"{part} {rough_percent(share)}" for part, share in row["parts"].items())


_FIGURES: Final = (
    figure("of device time", "share", percent),
    Column("of which", _parts, text=True),
    figure("FLOP", "flops", amount),
    figure("bytes", "bytes", lambda size: amount(size, "B")),
    figure("efficiency", "efficiency", percent),
    text("limited by", "bottleneck"),
)
LINES: Final = (Column("line", name_of, text=True), *_FIGURES, Column("called from", _callers, text=True))
"""The columns of a text."""
_WITH_CALLERS: Final = Column(
    "where",
    lambda row: f"{name_of(row)}\n{'← ' if row['callers'] else ''}{_callers(row)}".strip(),
    text=True,
    whole=lambda row: " ← ".join(map(name_of, (row, *row["callers"]))),
)


def in_words(rows: Sequence[Row]) -> str | None:
    """A sentence on the line with the most time of its own; None where operations without a line have more."""
    line = next(iter(dearest(rows)), None)
    if line is None or not line["file"] or not line["share"]:
        return None
    own, place = (line["name"], line["file"]), _place(line)
    callers = (one for one in line["callers"] if one["file"] and (one["name"], one["file"]) != own)
    others = (one for one in callers if _place(one) != place)  # as a lambda is called on its own line
    caller = next((f", called from {_place(one)}" for one in others), "")
    caller += _more_paths(line) if caller else ""
    function = f"`{name_of({**line, 'file': ''})}`, " if line["name"] else ""
    said = f"{rough_percent(line['share'])} of the device's time is in {function}{place}{caller}"
    if line["bottleneck"] in {"compute", "memory"}:
        near = line["efficiency"]
        said += f"; it is {line['bottleneck']}-bound{'' if near is None else f' at {rough_percent(near)} of its roof'}"
    return f"{said}."


def sections(device_time: Row) -> Iterator[Element | None]:
    """The flame graph by line with its table, and below it, to open, the one by named scope where there are any."""
    rows, scopes = device_time["by_line"], device_time["by_scope"]
    columns, title = (_WITH_CALLERS, *_FIGURES), "Device time by line"
    yield flame_graph(rows, title)
    yield legend(dict.fromkeys(path[-1]["bottleneck"] for path in leaves(rows)))
    yield quiet(in_words(rows))
    listed = table(columns, dearest(rows), caption=title, most=MAX_LINES)
    yield folded("As a table", listed, name="lines-table")
    if any(row["name"] != "(no named scope)" for row in scopes if not row["depth"]):
        title = "Device time by named scope"
        listed = table(columns, dearest(scopes), caption=title, most=MAX_LINES)
        yield folded("By named scope", flame_graph(scopes, title), listed, name="lines-scopes")


def changes(before: Row, after: Row) -> Iterator[Element | None]:
    """The flame graph of a run beside that of one before; nothing where one of them had no profiler window."""
    old, rows = before.get("by_line"), after.get("by_line")
    if old and rows:
        yield tag("h4", "device time by line in B, and how its share has changed")
        yield flame_graph(rows, "Device time by line", shares_by_path(old))
        yield legend((LARGER, SMALLER, ALIKE))


def _with_operations(rows: Sequence[Row]) -> Iterator[Row]:
    """The frames, each with its largest operations as if it called them."""
    for row in rows:
        yield row
        yield from ({**one, "depth": row["depth"] + 1, "file": ""} for one in operations_of(row))


def flame_graph(
    rows: Sequence[Row], title: str, before: Mapping[Path, float] | None = None
) -> Element | None:
    """Each frame as a bar below its caller's, as wide as its share of the time; None where there is no time.

    Below a line are its largest operations. In the colour of what bounds it or, where the shares `before` by path are
    given, of how its own share has changed: without operations then, whose names are others in each compile.
    """
    outermost = [row for row in rows if not row["depth"]]
    whole = sum(row["seconds"] for row in outermost)
    if whole <= 0:
        return None
    shares = {} if before is None else shares_by_path(rows)
    drawn, starts, deepest = [], [0.0], 0
    frames = list(_with_operations(rows)) if before is None else rows
    for row, path in zip(frames, _paths(frames), strict=True):
        depth, width = row["depth"], row["seconds"] / whole
        start = starts[depth]
        starts[depth:] = [start + width, start]
        if width >= _MIN_WIDTH:
            colour, about = row["bottleneck"], _figures_of(row, width)
            if before is not None:
                colour, about = _changed(shares[path], before.get(path))
            name, place = name_of(row), (start, width)
            text = name if width >= _ROOM_FOR_A_NAME else None
            at = depth * _HEIGHT
            drawn.append(part(text, colour, f"{name}\n{about}", place, _HEIGHT, class_="mark part", y=at))
            deepest = max(deepest, depth)
    named = ", ".join(f"{name_of(row)} {rough_percent(row['seconds'] / whole)}" for row in outermost)
    return chart((deepest + 1) * _HEIGHT, f"{title}: {named}", *drawn, kind="bar")


def _changed(share: float, before: float | None) -> tuple[str, str]:
    """How a frame's share of the device's time has changed, as the name of its colour and in words."""
    now = f"{rough_percent(share)} of the device's time"
    if before is None:
        return LARGER, f"{now}; not among the frames of A"
    kind = ALIKE if abs(share - before) < SAME else LARGER if share > before else SMALLER
    return kind, f"{now}, {rough_percent(before)} in A"


def host_time(document: Mapping[str, Any]) -> list[Row]:
    """The main thread's sampled time of a snapshot as one tree: each loop, and what lay outside loops, is a frame."""
    calls = {f"loop {name}": loop.get("host_calls") for name, loop in (document.get("loops") or {}).items()}
    calls["outside loops"] = (document.get("process") or {}).get("host_calls")
    rows: list[Row] = []
    for name, below in calls.items():
        if below:
            seconds = sum(row["seconds"] for row in below if not row["depth"])
            rows.append({"depth": 0, "name": name, "file": "", "line": 0, "seconds": seconds})
            rows += [{**row, "depth": row["depth"] + 1} for row in below]
    return rows


def of_host(rows: Sequence[Row]) -> Iterator[Element | None]:
    """The graph of the main thread's sampled time, a loop's `host_calls`; nothing where no line calls another."""
    if any(row["depth"] for row in rows):
        coloured = [{**row, "bottleneck": _COLOURS.get(row["activity"], "host")} for row in rows]
        graph = flame_graph(coloured, "Where the main thread was, by line")
        colours = legend(dict.fromkeys(row["bottleneck"] for row in coloured), {"unknown": _WAITS_OR_UNKNOWN})
        yield folded("As a flame graph", graph, colours, name="host-calls")


def _figures_of(row: Row, share: float) -> str:
    if activity := row.get("activity"):
        sampled = f"{rough_percent(share)} of the samples, {duration(row['seconds'])}"
        return f"{sampled}\nmostly {DOING.get(activity, 'at what is not known')}"
    lines = (
        f"{rough_percent(share)} of the device's time, {duration(row['seconds'])}",
        f"{or_absent(row['flops'], amount)} FLOP, {or_absent(row['bytes'], byte_size)}",
        f"efficiency {or_absent(row['efficiency'], percent)}, limited by {row['bottleneck']}",
    )
    return "\n".join(lines)
