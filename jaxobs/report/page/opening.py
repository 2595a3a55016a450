"""The top of the page: what runs where, how it is going in one sentence, the main figures, and advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final
from urllib.parse import quote

from jaxobs.model.snapshot import Document, longest_loops
from jaxobs.report.drawing import Element, tag
from jaxobs.report.page.parts import card, pairs, quiet, with_code
from jaxobs.report.page.view import View
from jaxobs.report.sentence import sentence as in_a_sentence
from jaxobs.vocabulary.units import amount, duration, percent, rough_percent

_RECORDED_SHOWN: Final = 3
"""How many values recorded by the user are shown beside the figures; all of them are in the charts."""


def run_name(document: Document) -> str:
    """The name of the run, else of the service."""
    process = document.get("process") or {}
    return str(process.get("run") or process.get("service_name") or "JAX")


def facts(document: Document) -> list[str]:
    """What is known of this process: its rank, host, devices, version of JAX, and age."""
    process = document.get("process") or {}
    index, count = process.get("process_index"), process.get("process_count")
    known = (
        f"rank {index} of {count}" if index is not None and (count or 1) > 1 else None,
        process.get("host_name"),
        _devices(document),
        f"JAX {process['jax']}" if process.get("jax") else None,
        f"observed for {duration(process['seconds'])}" if process.get("seconds") is not None else None,
    )
    return [str(fact) for fact in known if fact]


def header(view: View) -> Element:
    """The name of the run, facts on its process, and links to the other ranks and loops."""
    links = [
        tag("a", rank.name, href=rank.address, rel="noreferrer")
        if rank.address
        else tag("a", rank.name, aria_current="page", href="#top")
        for rank in view.ranks
    ]
    ranked = longest_loops(view.document)
    loops = [
        tag("a", loop, href=f"?loop={quoted}", aria_current="true" if loop == view.loop else None)
        for loop in (ranked if len(ranked) > 1 else ())
        for quoted in [quote(loop, safe="", errors="replace")]
    ]
    return tag(
        "header",
        tag("h1", run_name(view.document)),
        tag("p", " · ".join(facts(view.document)), class_="facts"),
        tag("p", id="state", class_="quiet", role="status"),
        tag("nav", *links, aria_label="Ranks") if len(links) > 1 else None,
        tag("nav", *loops, aria_label="Loops") if loops else None,
        id="top",
    )


def sentence(view: View) -> Element:
    """What a person would answer who was asked how the run is going."""
    name = view.loop
    if name is None:
        return tag("p", without_loops(view.document), class_="sentence", id="sentence")
    parts = in_a_sentence(view.document, name)
    words = (tag("b", part.words) if part.strong else part.words for part in parts)
    return tag("p", *words, class_="sentence", id="sentence")


def figures(view: View) -> Element | None:
    """The main figures as large numbers; those that are not known are left out."""
    if view.loop is None:
        return None
    shown = list(known_figures(view, view.loop))
    return pairs(shown, class_="figures", id="figures") if shown else None


def advice(view: View) -> Element | None:
    """The advice as a list; None where there is none."""
    found = view.document.get("advice") or []
    items = [
        tag(
            "li",
            tag("strong", *with_code(str(piece.get("sentence")))),
            " ",
            *with_code(str(piece.get("remedy") or "")),
            tag("span", f" Gives back {rough_percent(piece['saves_ratio'])} of the time.", class_="saves")
            if piece.get("saves_ratio")
            else None,
        )
        for piece in found
    ]
    return card("What to do", tag("ol", *items, class_="advice"), name="advice") if items else None


def absent_figures(view: View) -> Element | None:
    """Why main figures of the loop are missing; None where none is."""
    return quiet(*why_absent(view))


def why_absent(view: View) -> list[str]:
    """A sentence for each reason why main figures of the chosen loop are not known."""
    loop = view.loops[view.loop] if view.loop is not None else {}
    by_reason: dict[str, list[str]] = {}
    for key, title in (("step_seconds", "step time"), ("mfu", "MFU"), ("hfu", "HFU")):
        if loop.get(key) is None and loop.get(f"{key}_reason"):
            by_reason.setdefault(str(loop[f"{key}_reason"]), []).append(title)
    return [f"No {' and '.join(names)}: {reason}." for reason, names in by_reason.items()]


def known_figures(view: View, name: str) -> Iterator[tuple[str, str]]:
    """Title and value of each known figure of a loop, of values recorded by the user, and of goodput."""
    loop, process = view.loops[name], view.document.get("process") or {}
    written: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("step_seconds", "step time", duration),
        ("steps_per_second", "steps/s", amount),
        ("tokens_per_second", "tokens/s", amount),
        ("examples_per_second", "examples/s", amount),
        ("mfu", "MFU", percent),
        ("hfu", "HFU", percent),
    )
    for key, title, write in written:
        same = key == "hfu" and loop.get("hfu") == loop.get("mfu")
        if loop.get(key) is not None and not same:
            yield title, write(loop[key])
    recorded = (loop.get("recorded") or {}).items()
    known = ((name, amount(value)) for name, value in recorded if isinstance(value, int | float))
    yield from islice(known, _RECORDED_SHOWN)
    if process.get("goodput") is not None:
        yield "goodput", rough_percent(process["goodput"])


def without_loops(document: Document) -> str:
    """The sentence that is shown where no loop was seen."""
    if not document.get("process"):
        return (
            f"Nothing is known yet: {document.get('process_reason') or 'the first snapshot is on its way'}."
        )
    return (
        "No loop was seen yet: iterate over obs.steps(…), or start the script with `jaxobs run`; compiles, memory and"
        " devices are below."
    )


def _devices(document: Document) -> str | None:
    kinds = Counter(device.get("kind") for device in document.get("devices") or ())
    return ", ".join(f"{count} × {kind}" if count > 1 else str(kind) for kind, count in kinds.items()) or None
