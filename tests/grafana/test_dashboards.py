"""The dashboard files: made from their source, read and written by Grafana's types, on metrics that exist."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.source.__main__ import FOLDER, text
from grafana.source.annotations import ANNOTATIONS
from grafana.source.not_shown import NOT_SHOWN
from grafana.source.pages import PAGES
from grafana.source.pages.roofline_chart import ELEMENT_TYPES
from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.model.metrics import SUFFIXES
from jaxobs.plugin.discovery import COLLECTORS, EXPORTERS, PROBES, discover

ROOT = Path(__file__).parents[2]
FILES = sorted(FOLDER.glob("*.json"))
RULES = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yml").read_text())["groups"][0]["rules"]
RECORDED = {rule["record"]: rule["expr"] for rule in RULES}
CHARTS = [chart for page in PAGES for row in page.rows for chart in row.charts]


def catalogue() -> dict[str, Any]:
    plugins = [found.plugin for group in (PROBES, COLLECTORS, EXPORTERS) for found in discover(group)
               if found.value.startswith("jaxobs_plugins.")]  # fmt: skip
    return {
        metric.name: metric
        for metrics in (CORE_METRICS, *(each.metrics for each in plugins))
        for metric in metrics
    }


def sampled_names() -> dict[str, str]:
    """Every name that the exporter shows, and the metric it belongs to."""
    return {
        name: metric.name
        for metric in catalogue().values()
        for name in (metric.name, *(metric.name + suffix for suffix in SUFFIXES[metric.kind]))
    }


def test_the_files_are_what_the_source_says() -> None:
    assert {file.name: file.read_text() for file in FILES} == {
        f"{page.uid}.json": text(page) for page in PAGES
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_grafanas_types_read_and_write_the_file_unchanged(file: Path) -> None:
    content = json.loads(file.read_text())
    for annotation in content["annotations"][
        "list"
    ]:  # what the data source for Prometheus reads is not in the types
        assert [annotation.pop(key) for key in ("titleFormat", "textFormat", "step")]
    assert json.loads(json.dumps(Dashboard.from_json(content), cls=JSONEncoder)) == content


def test_every_metric_is_on_a_panel_or_says_why_not() -> None:
    names = sampled_names()
    expressions = "\n".join(query.promql for chart in CHARTS for query in chart.queries)
    expressions += "\n".join(RECORDED[name] for name in re.findall(r"\b\w+:jaxobs_\w+:\w+", expressions))
    asked = set(re.findall(r"(?<![:\w])jaxobs_[a-z0-9_]+", expressions))
    assert asked <= names.keys()
    shown = {names[name] for name in asked}
    assert not shown & NOT_SHOWN.keys()
    assert shown | NOT_SHOWN.keys() == set(catalogue())


def test_every_label_of_a_query_exists() -> None:
    labels = {"job", "instance", "run", "run_id", "attempt", "rank", "host", "le", "user", "line"}
    known = {name: set(metric.labels) for name, metric in catalogue().items()}
    names = sampled_names()
    shown = [(chart.title, query.expression, query.legend) for chart in CHARTS for query in chart.queries]
    shown += [(each.name, each.expression, each.text) for each in ANNOTATIONS]
    for title, expression, legend in shown:
        for name, matchers in re.findall(r"\b(jaxobs_[a-z0-9_]+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)=", matchers)) <= {"job", "instance"} | known[names[name]], (
                expression
            )
        used = set(re.findall(r"(?<![:\w])(jaxobs_[a-z0-9_]+)", expression))
        here = labels.union(*(known[names[name]] for name in used))
        if used:
            assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= here, (title, legend)


def test_titles_of_panels_are_unique_and_all_are_described() -> None:
    for page in PAGES:
        titles = [chart.title for row in page.rows for chart in row.charts]
        assert len(titles) == len(set(titles))
    assert all(chart.description.endswith(".") for chart in CHARTS)
    assert all(chart.empty for chart in CHARTS if chart.absence)


def test_an_override_of_a_query_names_one_of_the_panel() -> None:
    for chart in CHARTS:
        names = {override.name for override in chart.overrides if override.of_query}
        assert names <= {query.name for query in chart.queries}, chart.title


def test_a_line_of_a_rank_leads_to_its_page() -> None:
    asked = [(chart, query) for chart in CHARTS for query in chart.queries if query.has_page]
    for chart, query in asked:
        groups = re.findall(r"by \(([^)]*\brank\b[^)]*)\)", query.expression)
        assert groups, chart.title
        assert all("instance" in group.split(", ") for group in groups), chart.title
    files = [json.loads(file.read_text()) for file in FILES]
    overrides = [
        override["properties"] for page in files for panel in page["panels"]
        for override in panel.get("fieldConfig", {}).get("overrides", [])
    ]  # fmt: skip
    urls = [link["url"] for (first, *_) in overrides if first["id"] == "links" for link in first["value"]]
    assert urls.count("http://${__field.labels.instance}/") == len(asked) > 40


def test_steps_a_second_are_no_share() -> None:
    """They stand beside shares on one panel, of which the unit would show 2 of them as 200 %."""
    panels = json.loads((FOLDER / "jaxobs-roofline.json").read_text())["panels"]
    (config,) = [panel["fieldConfig"] for panel in panels if panel["title"] == "Time in profiler windows"]
    assert config["defaults"]["unit"] == "percentunit"
    (override,) = config["overrides"]
    assert override["matcher"] == {"id": "byFrameRefID", "options": "B"}
    assert {"id": "unit", "value": "short"} in override["properties"]
    assert {"id": "custom.axisPlacement", "value": "right"} in override["properties"]


def test_every_element_type_with_a_peak_has_a_roof() -> None:
    table = tomllib.loads((ROOT / "jaxobs" / "hardware" / "hardware.toml").read_text())
    types = set(re.findall(r"'matrix': \{(.*?)\}", str(table)))
    assert {name for found in types for name in re.findall(r"'(\w+)':", found)} <= set(ELEMENT_TYPES)


def test_links_keep_the_choice() -> None:
    for file in FILES:
        (link,) = json.loads(file.read_text())["links"]
        assert link["includeVars"]
        assert link["keepTime"]
        assert link["tags"] == ["jaxobs"]
        assert "jaxobs" in json.loads(file.read_text())["tags"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_one_run_is_chosen_at_first_and_it_is_the_newest(file: Path) -> None:
    """Grafana takes the first option; where all were chosen, shares of three runs were stacked to 300 %."""
    (run,) = [each for each in json.loads(file.read_text())["templating"]["list"] if each["name"] == "run"]
    assert (run["includeAll"], run["multi"], run["sort"]) == (False, True, 0)
    assert "current" not in run
    assert run["query"].startswith("query_result(sort_desc(")


def test_the_option_shows_the_name_and_stands_for_the_id() -> None:
    (text,) = re.findall(r'"regex": "/(.*)/",$', FILES[0].read_text(), re.MULTILINE)
    pattern = re.sub(r"\(\?<(\w+)>", r"(?P<\1>", json.loads(f'"{text}"'))
    shown = (
        '{line="wide "net" 1f 00 ada",run_id="1f00"} 1795733000 1795733600000'  # as Grafana writes a series
    )
    found = re.search(pattern, shown)
    assert found
    assert (found["text"], found["value"]) == ('wide "net" 1f 00 ada', "1f00")


def test_of_many_ranks_a_panel_draws_a_few() -> None:
    for chart in CHARTS:
        for query in chart.queries:
            if re.search("{{(rank|host)}}", query.legend):
                assert re.match(r"(top|bottom)k\(20, ", query.promql), chart.title
