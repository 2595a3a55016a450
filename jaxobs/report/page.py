"""The live page, one HTML document: the blocks of a view as markup, with the page's style and its script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

from jaxobs.model.snapshot import Document, longest_loops
from jaxobs.report.blocks import (
    Advice,
    Block,
    Curve,
    Figures,
    Folded,
    Grid,
    Legend,
    Meters,
    Nearness,
    Reasons,
    Section,
    Sentence,
    SharesOverTime,
    StepBar,
)
from jaxobs.report.charts import line_chart, shares_bar, shares_over_time
from jaxobs.report.markup import (
    Element,
    card,
    folded,
    legend,
    markup,
    pairs,
    quiet,
    style,
    table,
    tag,
    with_code,
)
from jaxobs.report.roofline_chart import roofline
from jaxobs.report.view import View, facts, run_name, sections
from jaxobs.vocabulary.units import rough_percent

_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M1 14 8 5h7' fill='none' stroke='%230072b2' stroke-width='2.5'/%3E"
    "%3Ccircle cx='9' cy='11' r='2.5' fill='%23d55e00'/%3E%3C/svg%3E"
)


def page(view: View) -> str:
    """The HTML document."""
    return "".join(_pieces(view))


def shown(section: Section) -> Iterator[Element]:
    """A section as a card, or its blocks alone if it has no title."""
    curves = [block for block in section.blocks if isinstance(block, Curve)]
    found = [
        _curve(block, last=block is curves[-1]) if isinstance(block, Curve) else element(block)
        for block in section.blocks
    ]
    if section.title:
        yield card(section.title, *found, name=section.name, note=section.note)
    else:
        yield from filter(None, found)


def element(block: Block) -> Element | None:
    """A block as markup; None if there is nothing to show."""
    return _WRITTEN[type(block)](block)


def _sentence(block: Sentence) -> Element:
    spoken = (tag("b", part.words) if part.strong else part.words for part in block.parts)
    return tag("p", *spoken, class_="sentence", id="sentence") if block.large else tag("p", *spoken)


def _figures(block: Figures) -> Element:
    return (
        pairs(block.pairs, class_="figures", id="figures")
        if block.large
        else pairs(block.pairs, class_="facts")
    )


def _curve(block: Curve, *, last: bool) -> Element | None:
    if not block.titled:
        return line_chart(block, height=130)
    drawn = line_chart(block, height=100 if last else 82, with_times=last)
    return tag("figure", tag("figcaption", block.name), drawn)


def _meters(block: Meters) -> Element:
    items = (
        tag(
            "li",
            tag("span", line, class_="line"),
            tag("span", rough_percent(share), class_="share"),
            tag(
                "svg", tag("rect", width="100%", height="4", rx="2", class_="meter"),
                tag("rect", width=f"{min(100.0, 100 * share):.1f}%", height="4", rx="2", class_="meter-full"),
                width="100%", height="4", aria_hidden="true",
            ),
        )
        for line, share in block.shares
    )  # fmt: skip
    return tag("ol", *items, class_="meters")


def _advice(block: Advice) -> Element:
    return tag("ol", *map(_piece, block.pieces), class_="advice")


def _piece(piece: Document) -> Element:
    saved = piece.get("saves_ratio")
    gives = tag("span", f" Gives back {rough_percent(saved)} of the time.", class_="saves") if saved else None
    said = tag("strong", *with_code(str(piece.get("sentence"))))
    return tag("li", said, " ", *with_code(str(piece.get("remedy") or "")), gives)


_WRITTEN: Final[dict[type, Callable[[Any], Element | None]]] = {
    Sentence: _sentence,
    Figures: _figures,
    Reasons: lambda block: quiet(*block.lines),
    Grid: lambda block: table(block.columns, block.rows, caption=block.caption, more=block.more),
    Folded: lambda block: folded(block.title, *map(element, block.blocks), name=block.name),
    StepBar: lambda block: shares_bar(block.parts),
    SharesOverTime: shares_over_time,
    Legend: lambda block: legend(block.names),
    Nearness: lambda block: roofline(block.roofs, block.points),
    Meters: _meters,
    Advice: _advice,
}


def _pieces(view: View) -> Iterator[str]:
    title = tag("title", f"{run_name(view.document)} · jaxobs")
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield markup(title) + "\n" + markup(tag("link", rel="icon", href=_ICON)) + "\n"
    yield f'<style>{_style()}</style>\n</head>\n<body class="jaxobs">\n<main>\n'
    yield markup(_header(view)) + "\n"
    yield from (f"{markup(each)}\n" for section in sections(view) for each in shown(section))
    yield "</main>\n" + markup(_footer()) + "\n"
    yield f"<script>{_script()}</script>\n</body>\n</html>\n"


def _header(view: View) -> Element:
    """The name of the run, facts on its process, and links to the other ranks and loops."""
    ranks = [
        tag("a", rank.name, href=rank.address, rel="noreferrer")
        if rank.address
        else tag("a", rank.name, aria_current="page", href="#top")
        for rank in view.ranks
    ]
    loops = [
        tag(
            "a", loop, href=f"?loop={quote(loop, safe='', errors='replace')}",
            aria_current="true" if loop == view.loop else None,
        )
        for loop in longest_loops(view.document)
    ]  # fmt: skip
    return tag(
        "header",
        tag("h1", run_name(view.document)),
        tag("p", " · ".join(facts(view.document)), class_="facts"),
        tag("p", id="state", class_="quiet", role="status"),
        tag("nav", *ranks, aria_label="Ranks") if len(ranks) > 1 else None,
        tag("nav", *loops, aria_label="Loops") if len(loops) > 1 else None,
        id="top",
    )


def _footer() -> Element:
    return tag(
        "footer",
        tag("p", tag("a", "metrics", href="metrics"), " · ", tag("a", "snapshot", href="snapshot"),
            " · made by jaxobs in the agent beside the job; looking costs the job nothing"),
    )  # fmt: skip


@cache
def _style() -> str:
    return style() + (files("jaxobs.report") / "page.css").read_text(encoding="utf-8")


@cache
def _script() -> str:
    return (files("jaxobs.report") / "page.js").read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    """The hash of a text by which a Content-Security-Policy allows it in a page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def policy() -> str:
    """The Content-Security-Policy of the page.

    It allows the page's own style and script by their hashes, its icon, and fetching the page anew. So a name that a
    program recorded cannot run as a script, even if escaping it was forgotten somewhere.
    """
    return (
        f"default-src 'none'; style-src {_hash_of(_style())}; script-src {_hash_of(_script())}; img-src data:;"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
