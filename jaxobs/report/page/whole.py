"""The whole page with its style and its script, and the Content-Security-Policy that lets nothing else run or load."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Final

from jaxobs.report.drawing import Element, markup, tag
from jaxobs.report.page import opening
from jaxobs.report.page.compiles import compilations
from jaxobs.report.page.machine import devices, host_lines, own_cost
from jaxobs.report.page.memory import memory
from jaxobs.report.page.parts import parts_style
from jaxobs.report.page.rooflines import nearness
from jaxobs.report.page.speed import over_time
from jaxobs.report.page.steps import where_steps_go
from jaxobs.report.page.view import View

_SECTIONS: Final[tuple[Callable[[View], Element | None], ...]] = (
    opening.header, opening.sentence, opening.figures, opening.absent_figures, opening.advice, where_steps_go,
    over_time, nearness, compilations, host_lines, memory, devices, own_cost,
)  # fmt: skip

_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M1 14 8 5h7' fill='none' stroke='%230072b2' stroke-width='2.5'/%3E"
    "%3Ccircle cx='9' cy='11' r='2.5' fill='%23d55e00'/%3E%3C/svg%3E"
)


def page(view: View) -> str:
    """The HTML document."""
    return "".join(_pieces(view))


def _pieces(view: View) -> Iterator[str]:
    title = tag("title", f"{opening.run_name(view.document)} · jaxobs")
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield markup(title) + "\n" + markup(tag("link", rel="icon", href=_ICON)) + "\n"
    yield f'<style>{_style()}</style>\n</head>\n<body class="jaxobs">\n<main>\n'
    for section in _SECTIONS:
        element = section(view)
        if element is not None:
            yield markup(element) + "\n"
    yield "</main>\n" + markup(_footer()) + "\n"
    yield f"<script>{_script()}</script>\n</body>\n</html>\n"


def _footer() -> Element:
    return tag(
        "footer",
        tag("p", tag("a", "metrics", href="metrics"), " · ", tag("a", "snapshot", href="snapshot"),
            " · made by jaxobs in the agent beside the job; looking costs the job nothing"),
    )  # fmt: skip


@cache
def _style() -> str:
    return parts_style() + (files("jaxobs.report.page") / "page.css").read_text(encoding="utf-8")


@cache
def _script() -> str:
    return (files("jaxobs.report.page") / "page.js").read_text(encoding="utf-8")


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
