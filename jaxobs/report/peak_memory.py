"""What an executable holds of a device's memory at its peak, in words and tables: what `jaxobs.memory()` returns.

It reads an entry of a snapshot's `memory_peaks` (docs/reference/snapshot.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jaxobs.report.markup import Element, card, folded, quiet, table, tag, with_code
from jaxobs.report.sentence import without_quotes
from jaxobs.report.tables import Column, Row, figure, known_columns, name, place, plain_table, text
from jaxobs.report.text_table import PLAIN_WIDTH, TextTable, to_text, wrapped
from jaxobs.report.view import View
from jaxobs.vocabulary.units import byte_size, count

PLACES: Final = 10
BUFFERS: Final = 12
"""Rows that are shown; the rest is in the document."""


def _what(row: Row) -> str:
    dimensions = ",".join(map(str, row["shape"]))
    return f"{row['dtype']}[{dimensions}]"


def _made_by(row: Row) -> str:
    loop = f", in each of {count(row['turns'])} turns" if row["turns"] > 1 else ""
    part = f" ({row['autodiff']})" if row["autodiff"] else ""
    return f"{row['operation']}{part}{loop}"


def _line(row: Row) -> str | None:
    known = place("", "source").show(row)
    return f"{known} in {row['function']}" if known and row["function"] else known


BY_PLACE: Final = (
    Column("made at", lambda row: place("", "source").show(row) or "(no source line)", text=True,
           whole=lambda row: row.get("source")),
    name("scope", "scope"),
    figure("bytes", "bytes", byte_size),
    figure("buffers", "buffers", count),
)  # fmt: skip
BY_BUFFER: Final = (
    Column("buffer", _what, text=True),
    figure("bytes", "bytes", byte_size),
    text("kind", "kind"),
    Column("made by", _made_by, text=True),
    name("scope", "scope"),
    Column("line", _line, text=True, whole=lambda row: row.get("source")),
)


def in_words(entry: Row) -> str:
    """How much it holds and of what, in a sentence without its name: `holds 42 MiB of a device: …`."""
    kinds = ("needed", "argument", "output", "temporary")
    whole, arguments, outputs, temporaries = (byte_size(entry[f"{kind}_bytes"]) for kind in kinds)
    shared = f" ({byte_size(entry['alias_bytes'])} of them donated arguments)" if entry["alias_bytes"] else ""
    live = entry["live_bytes"]
    in_use = f", of which {byte_size(live)} live at the peak" if live is not None else ""
    held = f"arguments {arguments}, outputs {outputs}{shared}, temporaries {temporaries}{in_use}"
    return f"holds {whole} of a device while it runs: {held}"


def parts(entry: Row) -> Iterator[TextTable | str]:
    """The entry as text: the sentence, temporaries by line, the largest buffers, and what would free some."""
    yield from wrapped(f"{entry['function']} {in_words(entry)}", PLAIN_WIDTH, rest="  ")
    if entry["live_bytes"] is None:
        yield f"temporaries: {entry['live_bytes_reason']}"
    for columns, rows, title in (
        (BY_PLACE, entry["places"][:PLACES], "temporaries at the peak, by the line that makes them"),
        (BY_BUFFER, entry["buffers"][:BUFFERS], "largest buffers at the peak"),
    ):
        yield from ("", plain_table(known_columns(columns, rows), rows, title=title)) if rows else ()
    yield from ("", "what would free memory") if entry["savings"] else ()
    for saving in entry["savings"]:
        said = f"{saving['change']}: {without_quotes(saving['sentence'])}"
        yield from wrapped(said, PLAIN_WIDTH, "  ", "    ")


def memory_peaks(view: View) -> Element | None:
    """What the executables that need most memory hold at their peak, the largest open; None before a compile.

    A record of before these were kept has none, and no reason.
    """
    peaks, reason = view.document.get("memory_peaks") or [], view.document.get("memory_peaks_reason")
    if not peaks:
        known = reason and view.document.get("executables")
        return card("Memory at the peak", quiet(f"Not known: {reason}."), name="peak") if known else None
    first, *others = peaks
    more = (element for entry in others for element in peak(entry))
    rest = folded(f"Other executables ({len(others)})", *more, name="peak-others")
    return card("Memory at the peak", *peak(first), rest, name="peak", note="buffers that live when most do")


def peak(entry: Row) -> Iterator[Element | None]:
    """What one executable holds at its peak, and what would free some of it."""
    yield tag("p", tag("code", entry["function"]), f" {in_words(entry)}.")
    yield quiet(entry["live_bytes_reason"])
    savings = (tag("li", *with_code(saving["sentence"])) for saving in entry["savings"])
    yield tag("ul", *savings) if entry["savings"] else None
    yield table(BY_PLACE, entry["places"][:PLACES], caption="Temporaries at the peak by line")
    title = "Largest buffers at the peak"
    rows = table(BY_BUFFER, entry["buffers"][:BUFFERS], caption=title)
    yield folded(title, rows, name=f"peak-{entry['executable']}-buffers")


class Memory:
    """What one run of a function holds of a device's memory, by XLA's buffer assignment.

    `print()` it for the lines and buffers that hold most at the peak, and for what would free some.

    Attributes:
        needed_bytes: Arguments, outputs and temporaries; what outputs share with donated arguments counts once.
        argument_bytes, output_bytes, alias_bytes, temporary_bytes: These, as XLA's own memory analysis has them.
        live_bytes: Of the temporaries, those that live at the peak; None where the compiler does not tell.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._entry = entry
        self.needed_bytes: int = entry["needed_bytes"]
        self.argument_bytes: int = entry["argument_bytes"]
        self.output_bytes: int = entry["output_bytes"]
        self.alias_bytes: int = entry["alias_bytes"]
        self.temporary_bytes: int = entry["temporary_bytes"]
        self.live_bytes: int | None = entry["live_bytes"]

    def __str__(self) -> str:
        return to_text(parts(self._entry))

    def _repr_html_(self) -> str:
        """Tables, where a notebook shows the object."""
        from jaxobs.report.notebook import shown

        return shown(*peak(self._entry))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON, with the keys of an entry of a snapshot's `memory_peaks`."""
        return dict(self._entry)
