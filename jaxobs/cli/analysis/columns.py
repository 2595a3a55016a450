"""The columns of devices, modules, scopes and operations, on the page and in the terminal."""

from __future__ import annotations

import re
from typing import Final

from jaxobs.report.columns import Column, Row, figure, text
from jaxobs.report.units import amount, duration, percent

_KEPT_FOLDERS: Final = 2


def bound_of(row: Row) -> str:
    """The bound of an operation; `cache_resident` where it would be memory, but the data was in cache."""
    return "cache_resident" if row["bound"] == "cache_resident" else str(row["label"])


def where(row: Row) -> str:
    """The source line with the last folders of its path, or else the named scope."""
    path = re.split(r"[\\/]", row["source"])
    return "/".join(path[-_KEPT_FOLDERS:]) if row["source"] else str(row["scope"])


DEVICE_NAME: Final = Column("device", lambda row: f"{row['host']} {row['name']}".strip())
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
    Column("module", lambda row: row["name"]),
    figure("devices", "devices", str),
    figure("runs", "runs", str),
    *_FIGURES,
    text("bound", "bound"),
)
SCOPES: Final = (Column("scope", lambda row: row["scope"]), *_FIGURES, text("bound", "bound"))
OPERATION_FIGURES: Final = (
    figure("runs", "executions", str),
    *_FIGURES,
    Column("bound", bound_of, text=True),
)
