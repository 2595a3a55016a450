"""Panels end to end: Prometheus's answers through Grafana's own transformations, to what stands in the picture."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from grafana.source.chart import Chart
from grafana.source.look import COMPONENT_COLOURS
from grafana.source.pages import PAGES
from grafana.source.pages.fleet import RANKS
from grafana.source.pages.overview import BOTTLENECK, RUNS
from grafana.source.pages.roofline_chart import ROOFLINE
from grafana.source.pages.roofline_tables import EXECUTABLES, OPERATIONS
from tests.grafana.scraped import RANKS as NUMBER_OF_RANKS
from tests.grafana.scraped import Scraped, has_values
from tests.grafana.shown import Shown, show

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

NIGHT = {"run": "night"}
TRANSFORMED = [chart for page in PAGES for row in page.rows for chart in row.charts if chart.transformations]


def shown(scraped: Scraped, chart: Chart, chosen: dict[str, str] | None = None) -> Shown:
    (picture,) = show([(chart, scraped.frames(chart, chosen))])
    return picture


def points(series: dict[str, Any], *names: str) -> dict[tuple[str, ...], tuple[float, ...]]:
    """By the labels named: x, y and what else the series has."""
    values = zip(series["x"], series["y"], series.get("color") or series["x"], strict=True)
    return {
        tuple(labels[name] for name in names): found
        for labels, found in zip(series["labels"], values, strict=True)
    }


@pytest.fixture(scope="module")
def roofline(scraped: Scraped) -> dict[str, dict[str, Any]]:
    """The series of the XY chart by name, for one run."""
    series = shown(scraped, ROOFLINE, NIGHT).series
    assert len({each["name"] for each in series}) == len(series)
    return {each["name"]: each for each in series}


def test_every_roof_is_a_line_of_at_least_thirty_points_that_rises_and_then_is_flat(
    roofline: dict[str, dict[str, Any]], scraped: Scraped
) -> None:
    types = {peak for device in scraped.snapshots["night"]["devices"] for peak in device["peaks"]["matrix"]}
    roofs = {name: series for name, series in roofline.items() if name not in {"executables", "operations"}}
    assert roofs.keys() <= types
    assert "float32" in roofs
    for name, series in roofs.items():
        assert len(series["x"]) >= 30, name
        assert series["x"] == sorted(series["x"])
        assert series["y"] == sorted(series["y"])
        assert all(isinstance(value, (int, float)) and value > 0 for value in (*series["x"], *series["y"]))
    assert roofs["float32"]["y"][-1] == 1e12  # the peak given
    assert roofs["float32"]["y"][0] / roofs["float32"]["x"][0] == pytest.approx(2e11)  # and the bandwidth


def test_every_executable_is_one_point_where_the_snapshot_says(
    roofline: dict[str, dict[str, Any]], scraped: Scraped
) -> None:
    expected = {
        (made["function"], made["executable"]): (
            made["cost"]["intensity"], made["achieved_flops_per_second"], made["efficiency"],
        )
        for made in scraped.snapshots["night"]["executables"]
        if made["cost"] and made["cost"]["intensity"] and made["achieved_flops_per_second"]
    }  # fmt: skip
    assert expected  # the step of the profiler window, and others of which polls met enough ends
    found = points(roofline["executables"], "function", "executable")
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key] == pytest.approx(values, rel=1e-9), key
    assert all(size is None or size >= 0 for size in roofline["executables"]["size"])


def test_operations_are_points_where_their_totals_say(
    roofline: dict[str, dict[str, Any]], scraped: Scraped
) -> None:
    found = points(roofline["operations"], "function", "operation", "category")
    assert found
    for (function, operation, _), (intensity, achieved, _) in found.items():
        totals = {
            quantity: float(
                scraped.prometheus.get(
                    "query", time=f"{scraped.end}",
                    query=f'jaxobs_operation_sampled_{quantity}_total{{instance="{scraped.static_instance}", '
                    f'function="{function}", operation="{operation}"}}',
                )["result"][0]["value"][1]
            )
            for quantity in ("flops", "bytes", "seconds")
        }  # fmt: skip
        assert intensity == pytest.approx(totals["flops"] / totals["bytes"])
        assert achieved == pytest.approx(totals["flops"] / totals["seconds"])


def test_the_table_of_executables_has_a_row_for_each(scraped: Scraped) -> None:
    rows = shown(scraped, EXECUTABLES, NIGHT).rows()
    keys = [(row["function"], row["executable"]) for row in rows if row["efficiency"] is not None]
    assert len(keys) == len(set(keys)) >= 1
    assert sum(row["share of device time"] or 0 for row in rows) == pytest.approx(1)
    for row in rows:
        if row["efficiency"] is not None:
            assert row["efficiency"] == pytest.approx(row["achieved"] / row["attainable"])
            assert row["bound by"]


def test_the_table_of_operations_says_scope_and_line(scraped: Scraped) -> None:
    rows = shown(scraped, OPERATIONS, NIGHT).rows()
    steps = [row for row in rows if row["function"] == "train_step" and row["sampled time"] is not None]
    assert any(re.search(r"job\.py:\d+$", row["source"] or "") for row in steps)
    assert any(row["scope"] == "hidden" for row in steps)
    assert len({(row["function"], row["operation"]) for row in rows}) == len(rows)


def test_the_bottleneck_is_a_row_of_words_for_each_loop(scraped: Scraped) -> None:
    (frame,) = shown(scraped, BOTTLENECK).frames
    time, *lines = frame["fields"]
    assert time["type"] == "time"
    assert time["values"] == sorted(time["values"])
    names = {f"{name} {scraped.run_id(name)} train" for name in ("evening", "night", "fleet")}
    assert {line["name"] for line in lines} >= names
    for line in lines:
        assert line["type"] == "string"
        words = {word for word in line["values"] if word}
        assert words
        assert words <= COMPONENT_COLOURS.keys()


def test_runs_are_rows_and_know_whether_they_are_still_there(scraped: Scraped) -> None:
    rows = {row["run"]: row for row in shown(scraped, RUNS).rows()}
    assert rows.keys() == {"evening", "night", "fleet"}
    assert (rows["evening"]["ranks now"], rows["night"]["ranks now"]) == (None, 1)
    assert rows["fleet"]["ranks seen"] == rows["fleet"]["ranks now"] == NUMBER_OF_RANKS
    assert rows["evening"]["last seen"] < rows["night"]["first seen"] + 1000


def test_each_rank_is_a_row(scraped: Scraped) -> None:
    rows = shown(scraped, RANKS, {"run": "fleet"}).rows()
    assert [row["rank"] for row in rows] == [str(rank) for rank in range(NUMBER_OF_RANKS)]
    assert all(row["host"] for row in rows)
    assert all(0 <= row["since heard of"] < 10 for row in rows)
    assert all(row["page"] == f"http://{row['instance']}" for row in rows)


def test_every_panel_that_transforms_keeps_its_values_and_its_names(scraped: Scraped) -> None:
    asked = [(chart, scraped.frames(chart)) for chart in TRANSFORMED]
    for (chart, frames), picture in zip(asked, show(asked), strict=True):
        answered = {frame["refId"] for frame in frames if any(map(has_values, frame["result"]))}
        if not answered:
            assert chart.absence or all(query.optional for query in chart.queries), chart.title
            continue
        fields = [field for frame in picture.frames for field in frame["fields"]]
        names = {field["name"] for field in fields}
        assert not {name for name in names if name.startswith("Value #")}, chart.title
        numbers = [value for field in fields if field["type"] == "number" for value in field["values"]]
        assert (
            any(value is not None and not math.isnan(value) for value in numbers) or chart.kind != "xychart"
        )
        if answered == {query.name for query in chart.queries}:
            assert {override.name for override in chart.overrides} <= names, chart.title
