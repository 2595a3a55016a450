"""Checks whether an object is a plugin before it is started; each fault comes with what to do about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Collector, Plugin
from jaxobs.plugin.settings import problem_of_settings


def problem_of_plugin(plugin: Any, base: type[Plugin]) -> str:
    """Why an object is no plugin derived from `base`; empty where it is one."""
    name = type(plugin).__name__
    if not isinstance(plugin, base):
        return (
            f"{name} is not derived from {base.__name__}: write `class {name}({base.__name__})`, with "
            f"`from {base.__module__} import {base.__name__}`"
        )
    metrics: Any = plugin.metrics
    if not isinstance(metrics, tuple) or not all(isinstance(metric, Metric) for metric in metrics):
        return f"{name}.metrics is not a tuple of Metric but {shown(metrics)}"
    interval: Any = plugin.interval if isinstance(plugin, Collector) else 1.0
    if not isinstance(interval, int | float) or isinstance(interval, bool) or not 0 < interval < math.inf:
        return f"{name}.interval is not a positive number of seconds but {shown(interval)}"
    problem = "" if plugin.settings is None else problem_of_settings(plugin.settings)
    return f"{name}.settings, {shown(plugin.settings)}: {problem}" if problem else ""


def problem_of_rules(rules: Any) -> str:
    """Why an object is no mapping of rules for custom calls; empty where it is one."""
    if not isinstance(rules, Mapping):
        return f"an object of type {type(rules).__name__} is no mapping from custom-call target to rule"
    wrong = [target for target, rule in rules.items() if not (isinstance(target, str) and callable(rule))]
    return f"{wrong[0]!r} is no target with a rule that can be called" if wrong else ""


def shown(value: object) -> str:
    """A value as text for an error message, with its type, shortened where it is long."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # it is the plugin's own
        text = "a value that cannot be shown"
    return f"{text[:80]} (of type {type(value).__name__})"
