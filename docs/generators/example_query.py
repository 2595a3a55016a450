"""A PromQL query that one would begin with, for a metric of the catalogue, by its type, its name and its labels."""  # noqa: INP001  # beside scripts

from __future__ import annotations

from jaxobs.derive.catalogue import LAST_HEARD
from jaxobs.model.metrics import Metric

RATE = "5m"
"""Long enough for Prometheus' default scrape interval of a minute: `rate` needs two samples, and one may be missed."""
MANY_LABELS = 3
"""With so many labels a metric has more series than a graph can show: the largest are asked for."""


def example_query(metric: Metric) -> str | None:
    """The query, on one line; None of a gauge that one asks for by its name."""
    labels = ", ".join(metric.labels)
    by = f" by ({labels})" if labels else ""
    if metric.name.endswith("_info"):
        return f"count by ({', '.join(metric.labels[:MANY_LABELS])}) ({metric.name})"
    if metric.kind == "histogram":
        grouped = ", ".join(("le", *metric.labels))
        return f"histogram_quantile(0.9, sum by ({grouped}) (rate({metric.name}_bucket[{RATE}])))"
    if metric.kind == "counter":
        rate = f"sum{by} (rate({metric.name}[{RATE}]))"
        return f"topk(5, {rate})" if len(metric.labels) >= MANY_LABELS else rate
    if metric.unit == "timestamp_seconds" or metric.name.endswith("_timestamp_seconds"):
        # Of silence as the rule asks: a job that has ended is not silent.
        now = f"timestamp({metric.name})" if metric.name == LAST_HEARD.name else "time()"
        return f"{now} - {metric.name}"
    return None
