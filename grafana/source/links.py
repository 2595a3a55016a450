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


def _of_the_function(function: str) -> tuple[str, str]:
    compiles = f'{{ name = "jax.compile" && span.jax.function = "${{{function}}}" }}'
    return "Traces of this function's compiles", _traces(compiles)


TRACES_OF_COMPILES: Final = _of_the_function("__data.fields.function")
"""From a row of a table, which has the function in a column."""
TRACES_OF_THE_FUNCTION: Final = _of_the_function("__field.labels.function")
"""From a line, which has it as a label."""
TRACES_OF_ALL_COMPILES: Final = ("Traces of compiles", _traces('{ name = "jax.compile" }'))
TRACES_OF_STEPS: Final = ("Traces of slow steps", _traces('{ name = "jax.step" }'))
CHOOSE_THE_RUN: Final = {
    "title": "Show this run", "url": "/d/jaxobs-overview?var-run=${__value.raw}&${__url_time_range}",
}  # fmt: skip
PAGE_OF_THE_LINE: Final = {
    "title": "Live page of this rank", "url": "http://${__field.labels.instance}/", "targetBlank": True,
}  # fmt: skip
"""Only where Prometheus reaches the rank itself, and by plain HTTP; the table of ranks knows the rest."""
PAGE_OF_THE_RANK: Final = {"title": "Live page of this rank", "url": "${__value.raw}", "targetBlank": True}
