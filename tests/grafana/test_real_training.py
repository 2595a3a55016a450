"""Every panel answers, shown a real training; what it shows is what the training itself says."""

from __future__ import annotations

import re
from statistics import mean

import pytest

from grafana.source.annotations import ANNOTATIONS, Annotation
from grafana.source.chart import Chart, Page, Query
from grafana.source.pages import PAGES
from grafana.source.variables import choice
from tests.grafana.scraped import RANKS, Scraped, has_values

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

PROVOKED = {"Advice"}
"""Panels that are rightly empty on a healthy job, and are not here, where the job is made to be ill."""

EMPTY_HERE = {
    ("Advice", "memory"): "no advice on memory: CPUs have no allocator whose memory could be given back",
}
CHARTS = [(page, chart) for page in PAGES for row in page.rows for chart in row.charts]


@pytest.mark.parametrize(
    ("page", "chart"), CHARTS, ids=[f"{page.title}: {chart.title}" for page, chart in CHARTS]
)
def test_every_query_of_the_panel_answers_or_says_why_not(scraped: Scraped, page: Page, chart: Chart) -> None:
    silent = [
        query.name
        for query in chart.queries
        if not query.optional
        and (chart.title, query.name) not in EMPTY_HERE
        and not any(map(has_values, scraped.ask(query)))
    ]
    if chart.absence is None or chart.title in PROVOKED:
        assert not silent, f"{chart.title}: nothing for {silent}"
    elif silent:
        assert chart.empty  # the panel itself says why it is empty


@pytest.mark.parametrize(
    ("page", "chart"), CHARTS, ids=[f"{page.title}: {chart.title}" for page, chart in CHARTS]
)
def test_every_line_and_row_that_has_a_run_has_its_id(scraped: Scraped, page: Page, chart: Chart) -> None:
    """A run's name is used again, and by others."""
    found = [series["metric"] for query in chart.queries for series in scraped.ask(query)]
    assert [metric for metric in found if "run" in metric and not metric.get("run_id")] == []
    legends = {query.legend for query in chart.queries if "{{run}}" in query.legend}
    assert all("{{run_id}}" in legend for legend in legends)


def test_every_line_of_a_rank_says_where_its_page_is(scraped: Scraped) -> None:
    queries = [query for _, chart in CHARTS for query in chart.queries if query.has_page]
    found = [series["metric"] for query in queries for series in scraped.ask(query)]
    assert found
    assert [metric for metric in found if not re.fullmatch(r".+:\d+", metric.get("instance", ""))] == []


def marked(scraped: Scraped, annotation: Annotation) -> dict[str, list[float]]:
    """The moments that it marks, by its text."""
    found: dict[str, list[float]] = {}
    for series in scraped.ask(Query(annotation.expression)):
        text = annotation.text
        for label in re.findall(r"\{\{(\w+)\}\}", text):
            text = text.replace(f"{{{{{label}}}}}", series["metric"].get(label, ""))
        found.setdefault(text, []).extend(float(time) for time, _ in series["values"])
    return found


def test_moments_that_explain_a_change_are_marked(scraped: Scraped) -> None:
    found = {each.name: marked(scraped, each) for each in ANNOTATIONS}
    started = found.pop("Started")
    runs = {f"{name} {scraped.run_id(name)}" for name in ("evening", "night", "fleet")}
    assert {text.strip() for text in started} == runs
    assert all(max(times) - min(times) < 30 for times in started.values()), started
    del found["Alert"]  # which may rightly be silent
    for name, texts in found.items():
        assert {re.split("[: ]", text)[0] for text in texts} >= {"evening", "fleet"}, (name, texts)


def test_two_runs_on_one_port_are_two_lines_that_do_not_touch(scraped: Scraped) -> None:
    (chart,) = [chart for _, chart in CHARTS if chart.title == "Step rate"]
    times = {
        series["metric"]["run"]: [time for time, _ in series["values"]]
        for series in scraped.ask(chart.queries[0])
        if series["metric"]["loop"] == "train"
    }
    assert times.keys() == {"evening", "night", "fleet"}
    assert max(times["evening"]) < min(times["night"])


def test_every_recording_rule_answers(scraped: Scraped) -> None:
    groups = scraped.prometheus.get("rules", type="record")["groups"]
    records = {rule["name"] for group in groups for rule in group["rules"]}
    assert len(records) >= 13
    assert all(rule["health"] == "ok" for group in groups for rule in group["rules"])
    silent = {name for name in records if not scraped.prometheus.query(name)}
    assert silent == {
        "run_rank:jaxobs_gone:max",
        "run_rank_loop:jaxobs_hang_seconds:max",
        "run_rank_loop:jaxobs_slowdown_ratio:max",
        "run_rank_loop:jaxobs_slowdown_seconds:max",
    }  # every rank is there, and trains


def test_every_alert_was_evaluated(scraped: Scraped) -> None:
    groups = scraped.prometheus.get("rules", type="alert")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) >= 14
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"] == []


def test_variables_have_choices(scraped: Scraped) -> None:
    for label, metric in (("loop", "jaxobs_steps_total"), ("device", "jaxobs_device_info"),
                          ("device_kind", "jaxobs_roofline_ceiling_flops_per_second"),
                          ("dtype", "jaxobs_roofline_ceiling_flops_per_second")):  # fmt: skip
        assert scraped.prometheus.get(f"label/{label}/values", **{"match[]": metric}), label


def test_runs_are_offered_the_newest_first(scraped: Scraped) -> None:
    query = str(choice("run").build().query)
    offered = scraped.ask(Query(query.removeprefix("query_result(").removesuffix(")"), table=True))
    names = [series["metric"]["line"].split()[0] for series in offered]
    assert names[-1] == "evening"
    assert set(names) == {"evening", "night", "fleet"}
    assert len(names) == 3, offered


def test_exemplars_lead_to_traces(scraped: Scraped) -> None:
    found = scraped.prometheus.get(
        "query_exemplars",
        query="jaxobs_compile_seconds_bucket",
        start=f"{scraped.start}",
        end=f"{scraped.end}",
    )
    exemplars = [exemplar["labels"] for series in found for exemplar in series["exemplars"]]
    assert any("trace_id" in labels for labels in exemplars)
    # Of the runs that send no spans there is nothing to open.
    assert len({series["seriesLabels"]["instance"] for series in found}) == 1


def test_the_rank_that_lags_is_seen(scraped: Scraped) -> None:
    """The ranks of this story do not wait for each other, so it is input that says it."""
    (chart,) = [chart for _, chart in CHARTS if chart.title == "More input and host time than the mean"]
    beyond = {
        series["metric"]["rank"]: mean(float(value) for _, value in series["values"])
        for series in scraped.ask(chart.queries[0], {"run": "fleet", "loop": "train"})
    }
    assert beyond.keys() == {str(rank) for rank in range(RANKS)}
    assert max(beyond, key=lambda rank: beyond[rank]) == str(RANKS - 1), beyond
