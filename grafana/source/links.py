"""Links between dashboards, and from a function into the traces of its compiles."""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import quote

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model


def other_dashboards() -> build.DashboardLink:
    """A menu of all dashboards with the tag; the choice and the time range go along."""
    return (
        build.DashboardLink("jaxobs")
        .type(model.DashboardLinkType.DASHBOARDS)
        .tags(["jaxobs"])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )


def _traces(query: str) -> str:
    """The address of a TraceQL query in Explore; Grafana's `${…}` stay as they are."""
    panes = {
        "traces": {
            "datasource": "${tempo_datasource}",
            "queries": [
                {
                    "refId": "A",
                    "datasource": {"type": "tempo", "uid": "${tempo_datasource}"},
                    "queryType": "traceql",
                    "query": query,
                }
            ],
            "range": {"from": "${__from}", "to": "${__to}"},
        }
    }
    return "/explore?schemaVersion=1&panes=" + quote(json.dumps(panes, separators=(",", ":")), safe="${}_.")


TRACES_OF_COMPILES: Final = (
    "Traces of this function's compiles",
    _traces('{ name = "jax.compile" && span.jax.function = "${__data.fields.function}" }'),
)
TRACES_OF_STEPS: Final = ("Traces of slow steps", _traces('{ name = "jax.step" }'))
CHOOSE_THE_RUN: Final = {
    "title": "Show this run", "url": "/d/jaxobs-overview?var-run=${__value.raw}&${__url_time_range}",
}  # fmt: skip
PAGE_OF_THE_RANK: Final = {"title": "Live page of this rank", "url": "${__value.raw}", "targetBlank": True}
