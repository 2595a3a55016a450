"""From what a dashboard says to the builders of Grafana's own types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from grafana_foundation_sdk.builders import (
    common,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
    xychart,
)
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as common_model
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import prometheus as prometheus_model
from grafana_foundation_sdk.models import xychart as xychart_model

from grafana.source.annotations import ANNOTATIONS
from grafana.source.chart import BUCKETS, MAX_LINES, Chart, Override, Page, Query
from grafana.source.links import PAGE_OF_THE_LINE, other_dashboards
from grafana.source.variables import EVERY_PAGE, METRICS, choice, data_sources

Panel = timeseries.Panel | stat.Panel | table.Panel | statetimeline.Panel | xychart.Panel | heatmap.Panel


def dashboard(page: Page) -> build.Dashboard:
    """The whole dashboard."""
    builder = (
        build.Dashboard(page.title)
        .uid(page.uid)
        .description(page.description)
        .tags(["jaxobs", "jax"])
        .readonly()
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .refresh("30s")
        .link(other_dashboards())
    )
    for source in data_sources():
        builder.with_variable(source)
    for name in (*EVERY_PAGE, *page.variables):
        builder.with_variable(choice(name))
    for annotation in ANNOTATIONS:
        builder.annotation(annotation)
    number = count(1)
    for row in page.rows:
        builder.with_row(build.Row(row.question).id(next(number)))
        for chart in row.charts:
            builder.with_panel(panel(chart).id(next(number)))
    return builder


def panel(chart: Chart) -> Panel:
    """The panel, with what all kinds share; each kind adds its own."""
    builder = _KINDS[chart.kind](chart)
    builder.title(chart.title).description(_description(chart)).datasource(METRICS)
    builder.span(chart.width).height(chart.height).unit(chart.unit)
    for query in chart.queries:
        builder.with_target(_query(query))
    if chart.empty:
        builder.no_value(chart.empty)
    if chart.minimum is not None:
        builder.min(chart.minimum)
    if chart.maximum is not None:
        builder.max(chart.maximum)
    if chart.steps:
        builder.thresholds(_thresholds(chart.steps))
    for step in chart.transformations:
        builder.with_transformation(
            model.DataTransformerConfig(
                id_val=step.kind,
                options=dict(step.options),
                filter_val=model.MatcherConfig(id_val="byRefId", options=step.only) if step.only else None,
            )
        )
    for override in (*chart.overrides, *_pages(chart)):
        values = [
            model.DynamicConfigValue(id_val=name, value=value) for name, value in override.properties.items()
        ]
        if override.of_query:
            builder.override_by_query(override.name, values)
        else:
            builder.override_by_name(override.name, values)
    if chart.links:
        builder.data_links([build.DashboardLink(title).url(url) for title, url in chart.links])
    return builder


def _pages(chart: Chart) -> Iterator[Override]:
    """A link to the page of its process on each line of one, beside the panel's own, which an override replaces."""
    links = [*({"title": title, "url": url} for title, url in chart.links), PAGE_OF_THE_LINE]
    for query in chart.queries:
        if query.has_page:
            yield Override(query.name, {"links": links}, of_query=True)


def _description(chart: Chart) -> str:
    said = [chart.description]
    if limited := [query for query in chart.queries if query.has_many_lines]:
        said.append(f"Of many lines the {MAX_LINES} {'smallest' if limited[0].smallest else 'largest'}.")
    return " ".join([*said, f"When empty: {chart.empty}"] if chart.empty else said)


def _query(query: Query) -> prometheus.Dataquery:
    builder = prometheus.Dataquery().expr(query.promql).ref_id(query.name).datasource(METRICS)
    builder.editor_mode(prometheus_model.QueryEditorMode.CODE)
    if query.legend:
        builder.legend_format(query.legend)
    if query.table:
        return builder.instant().format(prometheus_model.PromQueryFormat.TABLE)
    if query.rows_over_time:
        return builder.range().format(prometheus_model.PromQueryFormat.TABLE)
    if query.legend == BUCKETS:
        return builder.range().format(prometheus_model.PromQueryFormat.HEATMAP)
    return builder.range().exemplar(query.exemplars)


def _thresholds(steps: Sequence[tuple[float, str]]) -> build.ThresholdsConfig:
    first = steps[0]
    base = model.Threshold(value=None, color=first[1] if first[0] == 0 else "green")
    above = [model.Threshold(value=value, color=colour) for value, colour in steps if value != 0]
    return build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps([base, *above])


def _lines(chart: Chart) -> timeseries.Panel:
    builder = (
        timeseries.Panel().fill_opacity(60 if chart.stacked else 8).line_width(0 if chart.stacked else 1)
    )
    builder.show_points(common_model.VisibilityMode.AUTO).min(0)
    legend = common.VizLegendOptions().show_legend(True).placement(common_model.LegendPlacement.BOTTOM)
    builder.legend(
        legend.display_mode(common_model.LegendDisplayMode.TABLE).calcs(["lastNotNull", "mean", "max"])
    )
    builder.tooltip(
        common.VizTooltipOptions()
        .mode(common_model.TooltipDisplayMode.MULTI)
        .sort(common_model.SortOrder.DESCENDING)
    )
    if chart.stacked:
        builder.stacking(common.StackingConfig().mode(common_model.StackingMode.NORMAL).group("A"))
    if chart.steps:
        builder.thresholds_style(
            common.GraphThresholdsStyleConfig().mode(common_model.GraphThresholdsStyleMode.DASHED)
        )
    return builder


def _number(_: Chart) -> stat.Panel:
    return stat.Panel().reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))


def _rows(_: Chart) -> table.Panel:
    return table.Panel().filterable(True)


def _states(chart: Chart) -> statetimeline.Panel:
    words: dict[str, model.ValueMappingResult] = {
        word: model.ValueMappingResult(color=colour, index=index, text=word)
        for index, (word, colour) in enumerate(chart.words.items())
    }
    builder = statetimeline.Panel().merge_values(True).row_height(0.8)
    builder.mappings([model.ValueMap(options=words)] if words else [])
    return builder.color_scheme(build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))


def _points(chart: Chart) -> xychart.Panel:
    builder = xychart.Panel().mapping(xychart_model.SeriesMapping.MANUAL)
    builder.scale_distribution(
        common.ScaleDistributionConfig().type(common_model.ScaleDistribution.LOG).log(10)
    )
    legend = common.VizLegendOptions().show_legend(True).placement(common_model.LegendPlacement.RIGHT)
    builder.legend(legend.display_mode(common_model.LegendDisplayMode.LIST))
    return builder.series([_series(entry) for entry in chart.series])


def _series(entry: Any) -> xychart.XYSeriesConfig:
    series = xychart.XYSeriesConfig().name(xychart.XychartXYSeriesConfigName().fixed(entry["name"]))
    for part, name in entry.items():
        if part != "name":
            matcher = xychart.MatcherConfig().id("byRefId" if part == "frame" else "byName").options(name)
            config = getattr(xychart, f"XychartXYSeriesConfig{part.title()}")
            getattr(series, part)(config().matcher(matcher))
    return series


def _buckets(chart: Chart) -> heatmap.Panel:
    axis = heatmap.YAxisConfig().unit(chart.unit)
    return heatmap.Panel().calculate(False).y_axis(axis).hide_y_histogram().show_legend()


_KINDS: Final[Mapping[str, Callable[[Chart], Panel]]] = {
    "timeseries": _lines,
    "stat": _number,
    "table": _rows,
    "state-timeline": _states,
    "xychart": _points,
    "heatmap": _buckets,
}
