"""What Grafana makes of a panel's answers: its own transformations, run in Node."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grafana.source.__main__ import FOLDER
from grafana.source.chart import Chart
from grafana.source.pages import PAGES

NODE = Path(__file__).parent / "node" / "panel.mjs"


@dataclass(frozen=True)
class Shown:
    """Frames after the transformations, and the series of an XY chart."""

    frames: list[dict[str, Any]]
    series: list[dict[str, Any]]

    def columns(self) -> dict[str, list[Any]]:
        """Of the only frame, by what stands above them."""
        (frame,) = self.frames
        return {field["name"]: field["values"] for field in frame["fields"]}

    def rows(self) -> list[dict[str, Any]]:
        columns = self.columns()
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def written(chart: Chart) -> Mapping[str, Any]:
    """The panel as its file has it."""
    (page,) = [page for page in PAGES if any(chart in row.charts for row in page.rows)]
    panels = json.loads((FOLDER / f"{page.uid}.json").read_text())["panels"]
    (panel,) = [panel for panel in panels if panel["title"] == chart.title and panel["type"] != "row"]
    found: Mapping[str, Any] = panel
    return found


def show(asked: Sequence[tuple[Chart, list[dict[str, Any]]]]) -> list[Shown]:
    """Each chart with the answers to its queries, in one run of Node."""
    where = os.environ.get("JAXOBS_GRAFANA_DATA")
    if not where:
        reason = "Grafana's code is not there: run `make prove-grafana`, which gets it"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    done = subprocess.run(
        ["node", str(NODE)],
        input=json.dumps([{"panel": written(chart), "frames": frames} for chart, frames in asked]),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [Shown(each["frames"], each["series"]) for each in json.loads(done.stdout)]
