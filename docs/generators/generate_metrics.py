"""Write docs/reference/metrics.md from the catalogue: `python docs/generators/generate_metrics.py`.

The catalogue is the core's metrics and those of every built-in plugin. With `--check` nothing is written; exit status 1:
the page is out of date.
"""  # noqa: INP001  # a script

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from written_file import write_or_compare

from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.model.metrics import Metric
from jaxobs.plugin.discovery import COLLECTORS, EXPORTERS, PROBES, discover

PAGE = Path(__file__).parents[1] / "reference" / "metrics.md"
BUILT_IN = "jaxobs_plugins."
MANY = 5
"""Of so many metrics, labels that all have are said once."""
INTRODUCTION = """\
# Metrics

Ask for a gauge by its name. A counter, a histogram, a moment, and a metric named `…_info`:

```promql
sum by (loop) (rate(jaxobs_steps_total[5m]))
```

```promql
histogram_quantile(0.9, sum by (le, loop) (rate(jaxobs_step_seconds_bucket[5m])))
```

```promql
time() - jaxobs_last_step_timestamp_seconds
```

```promql
count by (run, run_id, attempt) (jaxobs_run_info)
```

The dashboards join a series [with its run](../show/dashboards.md#how-a-panel-knows-the-run).

- Labels stand in parentheses. Metrics named `…_total` are counters; all others are gauges, unless they are called
  histograms.
- An unknown value is absent, never 0. Who and where is in `target_info`.
- Costs, executables, MFU, HFU and peaks are per device; `jaxobs_flops_total` and `jaxobs_bytes_total` are summed over the
  process's local devices.
- Beyond the limit on series, counters are summed under `__other__`, gauges and histograms are dropped.
- Over OTLP `jaxobs_step_seconds` is `jaxobs.step` in `s`, `jaxobs_mfu_ratio` is `jaxobs.mfu` in `1`. What NVML says goes
  out as `hw.*` too, by OpenTelemetry's semantic conventions.
"""


def built_in_plugins() -> Iterator[tuple[str, tuple[Metric, ...]]]:
    """What declares metrics, and which."""
    yield "The core", CORE_METRICS
    for group in (PROBES, COLLECTORS, EXPORTERS):
        for found in discover(group):
            if not found.value.startswith(BUILT_IN):
                continue
            if found.error:
                raise SystemExit(f"{found.group} {found.name} cannot be loaded: {found.error}")
            if found.plugin.metrics:
                kind = group.removeprefix("jaxobs.").removesuffix("s")
                yield f"The {kind} `{found.name}`", found.plugin.metrics


def page(declared: Iterable[tuple[str, tuple[Metric, ...]]]) -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, metrics in declared:
        parts.append(f"## {title}\n")
        shared = _shared(metrics)
        if shared:
            parts.append(f"Each has the labels {_names(metrics[0].labels[:shared])}.\n")
        parts += [_entry(metric, shared) for metric in metrics]
    return "\n".join(parts)


def _shared(metrics: tuple[Metric, ...]) -> int:
    """With how many labels all of them begin, where there are many of them."""
    if len(metrics) < MANY:
        return 0
    columns = zip(*(metric.labels for metric in metrics), strict=False)
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))


def _names(labels: Iterable[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels)


def _entry(metric: Metric, shared: int) -> str:
    labels = metric.labels[shared:]
    kind = "Histogram. " if metric.kind == "histogram" else ""
    return (
        f"### `{metric.name}`\n\n{kind}{metric.help.rstrip('.')}{f' ({_names(labels)})' if labels else ''}.\n"
    )


def main(arguments: list[str]) -> int:
    """Write the page, or say that it is out of date."""
    return write_or_compare(PAGE, page(built_in_plugins()), arguments, "does not say what the catalogue says")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
