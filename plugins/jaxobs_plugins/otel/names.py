"""Chooses the OTLP name and unit of a metric so that Prometheus's translation yields its catalogue name again.

The translation (`metric_namer.go` and `unit_namer.go` of https://github.com/prometheus/otlptranslator, by its
default strategy) joins the parts of a name with underscores and appends, unless it has them, the unit in
words, then `total` to a monotonic sum, or `ratio` to a gauge of unit `1`. A unit in braces adds nothing.

The rule here: a namespace, a dot, and the other words joined by underscores, as OpenTelemetry's naming has it
(https://opentelemetry.io/docs/specs/semconv/general/naming/). No name is a namespace as well: so `jaxobs.step` for
`jaxobs_step_seconds` and `jaxobs.step_host`, not `jaxobs.step.host`. The suffix `_total` is dropped, and so is a unit
that the translation appends. These words stay in the name:
- `flops`, and `bytes` but for memory: they are what is counted, and without them the FLOPs, bytes and seconds
  of one subject would share a name;
- a unit that the translation does not know (`flops_per_byte`), which is then written in braces;
- a unit without which nothing but the prefix would be left, or that occurs in the name a second time.

No unit helps where the name holds `total` before its end, or underscores that are doubled or last: the
translation removes them.
"""

from __future__ import annotations

from jaxobs.model.metrics import Metric

APPENDED = {
    "seconds": "s", "bytes": "By", "watts": "W", "joules": "J", "volts": "V", "amperes": "A", "meters": "m",
    "grams": "g", "celsius": "Cel", "hertz": "Hz", "percent": "%",
}  # fmt: skip
"""Unit words to UCUM symbols: the base units that the translation turns into words (its table `unitMap`)."""

PER_SECOND = "_per_second"
"""The only rate among base units. The translation looks for it among single words, so always appends it."""

ANNOTATIONS = {"flops": "{flop}"}
"""OpenTelemetry writes annotations in the singular; any other word stands in braces as it is."""


SUBJECTS = frozenset({"amd", "cgroup", "device", "host", "nvidia", "process", "tpu"})
"""Namespaces below the first; none of these words alone is the name of a metric."""


def otlp_name(metric: Metric) -> tuple[str, str]:
    """The instrument's dotted name and its unit."""
    stem = metric.name.removesuffix("_total")
    if metric.unit == "ratio":
        shortened = _without(stem, "ratio") if metric.kind == "gauge" else None
        return (_dotted(shortened), "1") if shortened else (_dotted(stem), "")
    main = metric.unit.removesuffix(PER_SECOND)
    if main != metric.unit:
        return _dotted(stem.removesuffix(PER_SECOND)), f"{_symbol(main)}/s"
    if main == "bytes" and "memory" not in stem.split("_"):
        return _dotted(stem), APPENDED["bytes"]
    shortened = _without(stem, main) if main in APPENDED else None
    return _dotted(shortened or stem), _symbol(main) if main else ""


def _symbol(word: str) -> str:
    return APPENDED.get(word) or ANNOTATIONS.get(word, "{" + word + "}")


def _without(stem: str, word: str) -> str | None:
    """The stem without its last word; None where the translation would not append that word again."""
    rest = stem.removesuffix("_" + word)
    parts = rest.split("_")
    return rest if len(parts) > 1 and word not in parts else None


def _dotted(name: str) -> str:
    prefix, _, rest = name.partition("_")
    subject, _, more = rest.partition("_")
    return ".".join(filter(None, (prefix, subject, more) if subject in SUBJECTS and more else (prefix, rest)))
