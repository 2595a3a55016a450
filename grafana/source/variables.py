"""Variables: what the viewer chooses, the same names on every dashboard, so that links keep the choice."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

METRICS: Final = model.DataSourceRef(type_val="prometheus", uid="${prometheus_datasource}")
EVERY_PAGE: Final = ("run", "job", "instance", "loop", "device")

_BEGAN: Final = (
    "timestamp(jaxobs_run_info)"
    " - on (job, instance) group_left () sum by (job, instance) (jaxobs_run_seconds_total)"
)
"""When the process began: the categories of its time add up to its age."""

_SEEN: Final = 'timestamp(jaxobs_run_info{rank=~"0|"})'
_NEWEST: Final = (
    f"sort_desc(max by (line, run_id) (label_join(1e10 + {_BEGAN}"
    f" or max_over_time({_SEEN}[1h:15s]) or max_over_time({_SEEN}[$__range:2m]),"
    ' "line", " ", "run", "run_id", "user")))'
)
"""First the runs that are there, the youngest first: Grafana's choice is the first option. Then, as 1e10 seconds are
beyond any time, those that ended, the last first; of one process, and each two minutes, for the range may be a month."""

_QUERIES: Final = {
    "run": f"query_result({_NEWEST})",
    "job": 'label_values(jaxobs_run_info{run_id=~"$run"}, job)',
    "instance": 'label_values(jaxobs_run_info{run_id=~"$run", job=~"$job"}, instance)',
    "loop": 'label_values(jaxobs_steps_total{job=~"$job", instance=~"$instance"}, loop)',
    "device": 'label_values(jaxobs_device_info{job=~"$job", instance=~"$instance"}, device)',
    "device_kind": (
        'label_values(jaxobs_roofline_ceiling_flops_per_second{job=~"$job", instance=~"$instance"}, device_kind)'
    ),
    "dtype": 'label_values(jaxobs_roofline_ceiling_flops_per_second{job=~"$job", instance=~"$instance"}, dtype)',
}  # fmt: skip
_ID_BY_NAME: Final = r'/line="(?<text>.*)",\s*run_id="(?<value>[^"]*)"/'
"""How Grafana finds what it shows, and what it puts in for `$run`, in the text that it makes of a series."""

_ONE_AT_A_TIME: Final = {"device_kind"}
"""A roofline is one device's: roofs of two would be one zigzag."""

_TITLES: Final = {"device_kind": "Device kind", "dtype": "Element type"}


def data_sources() -> list[build.DatasourceVariable]:
    """Where metrics come from, and where traces do: links into traces need the second."""
    return [
        build.DatasourceVariable(f"{kind}_datasource").label(f"{kind.title()} data source").type(kind)
        for kind in ("prometheus", "tempo")
    ]


def choice(name: str) -> build.QueryVariable:
    """A variable, where it can be with several values, by default all; of runs the newest, for all would be stacked."""
    builder = build.QueryVariable(name).label(_TITLES.get(name, name.title())).datasource(METRICS)
    builder.query(_QUERIES[name]).refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
    builder.sort(model.VariableSort.NATURAL_ASC)
    if name == "run":
        builder.regex(_ID_BY_NAME).sort(model.VariableSort.DISABLED)
        return builder.multi(True).include_all(False)
    if name in _ONE_AT_A_TIME:
        return builder
    everything = model.VariableOption(text="All", value="$__all", selected=True)
    builder.multi(True).include_all(True).current(everything)
    return builder.all_value(".+" if name in {"job", "instance"} else ".*")  # a loop may have no name here
