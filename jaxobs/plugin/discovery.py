"""Finding plugins by entry point, each loaded alone: one that cannot be imported is reported and the others run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from jaxobs.model.metrics import Metric
from jaxobs.plugin.guard import described, raised_by_signal_handler

PROBES = "jaxobs.probes"
COLLECTORS = "jaxobs.collectors"
EXPORTERS = "jaxobs.exporters"
CUSTOM_CALLS = "jaxobs.custom_calls"

REQUIRED_METHODS = {
    PROBES: ("start", "stop"),
    COLLECTORS: ("start", "collect", "stop"),
    EXPORTERS: ("start", "export", "stop"),
}


@dataclass(frozen=True, slots=True)
class Found:
    """An entry point: either a `plugin` was made from it, or `error` says why not.

    Of the group `jaxobs.custom_calls` the plugin is the mapping itself; of the others what the entry point makes.
    """

    group: str
    name: str
    value: str
    distribution: str
    plugin: Any = None
    error: str = ""


def discover(group: str, *, skip: frozenset[str] = frozenset()) -> list[Found]:
    """One entry for each entry point of the group, in the order of their names; `skip` names plugins not to load."""
    found: list[Found] = []
    names: set[str] = set()
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        if point.name in skip:
            continue
        if any(point.value == other.value and point.name == other.name for other in found):
            continue  # one distribution seen twice on sys.path
        if point.name in names:
            found.append(_failed(point, f"another plugin of this group is named {point.name!r} already"))
            continue
        names.add(point.name)
        found.append(_load(point))
    return found


def _load(point: EntryPoint) -> Found:
    try:
        loaded: Any = point.load()
        plugin = loaded if point.group == CUSTOM_CALLS else loaded()
        problem = conformance_problem(point.group, plugin)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin's import may do anything, SystemExit included
        if raised_by_signal_handler(error):
            raise
        return _failed(point, described(error))
    if problem:
        return _failed(point, problem)
    return Found(point.group, point.name, point.value, _distribution(point), plugin)


def conformance_problem(group: str, plugin: Any) -> str:
    """Why an object is no plugin of that group; empty where it is one."""
    if group == CUSTOM_CALLS:
        return _problem_of_rules(plugin)
    missing = [name for name in REQUIRED_METHODS.get(group, ()) if not callable(getattr(plugin, name, None))]
    if missing:
        return f"{type(plugin).__name__} has no method {', '.join(missing)}"
    metrics = getattr(plugin, "metrics", None)
    if not isinstance(metrics, tuple) or not all(isinstance(metric, Metric) for metric in metrics):
        return f"{type(plugin).__name__}.metrics is not a tuple of Metric"
    if group == COLLECTORS and not (
        isinstance(getattr(plugin, "interval", None), int | float) and plugin.interval > 0
    ):
        return f"{type(plugin).__name__}.interval is not a positive number of seconds"
    return ""


def _problem_of_rules(rules: Any) -> str:
    if not isinstance(rules, Mapping):
        return f"an object of type {type(rules).__name__} is no mapping from custom-call target to rule"
    wrong = [target for target, rule in rules.items() if not (isinstance(target, str) and callable(rule))]
    return f"{wrong[0]!r} is no target with a rule that can be called" if wrong else ""


def _failed(point: EntryPoint, error: str) -> Found:
    return Found(point.group, point.name, point.value, _distribution(point), error=error)


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "unknown distribution"
