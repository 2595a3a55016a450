"""The section of memory: its use over time, its limit and when that will be reached, and what holds it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from jaxobs.model.snapshot import Document, devices_with_memory, fullest
from jaxobs.report.columns import Column, last_name
from jaxobs.report.drawing import Element, line_chart, tag
from jaxobs.report.page.parts import card, folded, quiet, table
from jaxobs.report.page.view import View
from jaxobs.vocabulary.units import byte_size, duration, rough_percent

_HOLDERS: Final = 10


def memory(view: View) -> Element | None:
    """The memory of the fullest device, else of the process; None where neither is known."""
    name, found = _fullest(view.document)
    if found is None:
        return None
    chart = line_chart(
        view.trend.times, view.trend.column("memory", name), view.span, name=f"memory of {name}", write=byte_size,
        height=130, limit=found.get("limit_bytes"), tick_unit=_binary_unit(found["in_use_bytes"]),
    )  # fmt: skip
    live = (view.document.get("process") or {}).get("live_arrays") or {}
    devices = [
        {"name": f"device {device.get('device')}", **device["memory"]}
        for device in devices_with_memory(view.document)
    ]
    return card(
        "Memory",
        tag("p", *_in_words(name, found)),
        chart,
        None if found.get("forecast_seconds") is not None else quiet(_why_no_forecast(found)),
        folded(
            f"Devices ({len(devices)})",
            table(_DEVICES, devices, caption="Memory of devices"),
            name="memory-devices",
        )
        if len(devices) > 1
        else None,
        folded(
            "What holds it",
            table(
                _LINES, (live.get("lines") or [])[:_HOLDERS], caption="Live arrays by the line that made them"
            ),
            table(_GROUPS, (live.get("groups") or [])[:_HOLDERS], caption="Live arrays by shape"),
            name="memory-holders",
        ),
        name="memory",
    )


def _fullest(document: Document) -> tuple[str, Document | None]:
    if devices := devices_with_memory(document):
        device = fullest(devices)
        return f"device {device.get('device')}", device["memory"]
    process = (document.get("process") or {}).get("memory") or {}
    return "process", process if process.get("in_use_bytes") is not None else None


def _binary_unit(size: float) -> float:
    """The largest of B, KiB, MiB, … that is not above `size`, in bytes."""
    return 2.0 ** (10 * int(math.log2(max(size, 1.0)) // 10))


def _in_words(name: str, found: Document) -> Iterator[Element | str]:
    yield f"The {name} uses "
    yield tag("b", byte_size(found["in_use_bytes"]))
    if found.get("limit_bytes"):
        share = found["in_use_bytes"] / found["limit_bytes"]
        yield f" of {byte_size(found['limit_bytes'])} ({rough_percent(share)})"
    yield f", at most {byte_size(found['peak_bytes'])} so far." if found.get("peak_bytes") else "."
    if found.get("forecast_seconds") is not None and math.isfinite(found["forecast_seconds"]):
        yield " "
        yield tag(
            "b", f"It grows, and reaches the limit in {duration(found['forecast_seconds'])} if that goes on."
        )


def _why_no_forecast(found: Document) -> str | None:
    reason = found.get("forecast_seconds_reason")
    return f"No forecast: {reason}." if reason else None


_DEVICES: Final = (
    Column("device", lambda row: row["name"], text=True),
    Column("in use", lambda row: byte_size(row["in_use_bytes"])),
    Column("at most", lambda row: byte_size(row["peak_bytes"]) if row.get("peak_bytes") else None),
    Column("limit", lambda row: byte_size(row["limit_bytes"]) if row.get("limit_bytes") else None),
)
_LINES: Final = (
    Column("made at", lambda row: last_name(row.get("line")), text=True),
    Column("arrays", lambda row: f"{row.get('count') or 0:,}"),
    Column("bytes", lambda row: byte_size(row.get("bytes") or 0)),
)
_GROUPS: Final = (Column("shape", lambda row: f"{row.get('dtype')} {row.get('shape')}", text=True), *_LINES)
