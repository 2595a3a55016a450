"""HTML by which notebooks show an object: pictures and tables, for light and dark themes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from jaxobs.model.cost import inexact_for
from jaxobs.report import flame_graph
from jaxobs.report.comparison import COMPARED, INTERVALS, NOTHING, TITLE, Comparison
from jaxobs.report.markup import Element, markup, pairs, quiet, style, table, tag, whole_page, with_code
from jaxobs.report.page import (
    compilations,
    how_it_goes,
    memory,
    nearness,
    where_device_time_goes,
    where_steps_go,
)
from jaxobs.report.peak_memory import memory_peaks
from jaxobs.report.roofline_chart import roofline
from jaxobs.report.rooflines import Point
from jaxobs.report.tables import Column, text
from jaxobs.report.view import View
from jaxobs.roofline_model.bounds import Roof
from jaxobs.vocabulary.units import amount, duration

if TYPE_CHECKING:
    from jaxobs.report.measured_run import Roofline


def snapshot_html(document: Mapping[str, Any]) -> str:
    """A snapshot as on its page, without the sections that need a history, and with a link to the live page."""
    address = (document.get("process") or {}).get("address")
    live = str(address).removesuffix("metrics") if address else None
    link = tag("a", "Follow it live", href=live, target="_blank", rel="noreferrer") if live else None
    view = View(document)
    sections = (where_steps_go, nearness, where_device_time_goes, compilations, memory, memory_peaks)
    return shown(*how_it_goes(view), *(section(view) for section in sections), link and tag("p", link))


def roofline_html(measured: Roofline, roofs: Sequence[Roof]) -> str:
    """A measured run drawn under `roofs`."""
    intensity, rate, label = measured.cost.intensity, measured.achieved_flops_per_second, measured.bottleneck
    points = []
    if intensity and rate:
        about = f"{amount(rate, 'FLOP/s')} at {amount(intensity, 'FLOP/byte')}\nlimited by {label}"
        attainable = measured.attainable_flops_per_second
        points.append(Point("this run", "executable", intensity, rate, 0.3, label, about, attainable))
    work = [{"work": kind, "amount": much} for kind, much in measured.cost.rows()]
    reasons = measured.cost.why_inexact()
    figures = [("a run", duration(measured.seconds)), *measured.figures()]
    return shown(
        pairs([*figures, ("limited by", label), ("device", measured.device)], class_="figures"),
        roofline(roofs, points),
        table(_AMOUNTS, work, caption="Work of one run on one device"),
        quiet(measured.reason, measured.utilization_reason),
        quiet(f"The work is {inexact_for(reasons)}.") if reasons else None,
    )


def comparison_html(comparison: Comparison) -> str:
    """A comparison as a notebook shows it."""
    return shown(*_compared(comparison))


def comparison_page(comparison: Comparison) -> str:
    """A comparison as an HTML document that needs nothing else."""
    title = f"{comparison.before.name} and {comparison.after.name} · jaxobs"
    return whole_page(title, tag("main", tag("section", *_compared(comparison), class_="card")))


def _compared(comparison: Comparison) -> Iterator[Element | None]:
    """For each loop how its step time changed, the table of what differs, and where the device's time went instead."""
    yield quiet(comparison.which())
    yield from (tag("p", *with_code(time.sentence()), class_="sentence") for time in comparison.step_times)
    rows = table(COMPARED, comparison.rows(), caption=TITLE)
    yield tag("div", tag("h4", TITLE), rows) if rows is not None else quiet(NOTHING)
    one, other = (record.part("snapshot", "device_time") for record in (comparison.before, comparison.after))
    yield from flame_graph.changes(one, other)
    yield quiet(*(f"Not compared: {line}." for line in comparison.not_compared))
    yield quiet(INTERVALS)


def shown(*elements: Element | None) -> str:
    """The elements with their style, as a notebook shows them."""
    css = tag("style", style())
    return markup(tag("div", css, *elements, class_="jaxobs in-notebook"))


_AMOUNTS: Final = (text("work", "work"), Column("a run", lambda row: row["amount"]))
