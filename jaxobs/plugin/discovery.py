"""Finds plugins by entry point, checks them, and loads each separately: one that fails is reported, the others run.

Plugins of jaxobs itself are loaded on the calling thread; those of third parties on threads of their own, since an
import or a constructor may do anything, and may hang.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

from jaxobs.model.clock import monotonic
from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Collector, Exporter, Plugin, Probe
from jaxobs.plugin.guard import described, is_ctrl_c, raised_by_signal_handler
from jaxobs.plugin.settings import SettingsError, prefix, problem_of_settings, read_of_plugin
from jaxobs.plugin.threads import Thread

PROBES = "jaxobs.probes"

COLLECTORS = "jaxobs.collectors"

EXPORTERS = "jaxobs.exporters"

CUSTOM_CALLS = "jaxobs.custom_calls"

BASES: Mapping[str, type[Plugin]] = {PROBES: Probe, COLLECTORS: Collector, EXPORTERS: Exporter}
"""The class from which the plugins of each group are derived."""

LOAD_SECONDS = 5.0
"""Seconds that a third party's plugin may take to be imported and made. Imports of large packages take one or two."""

OWN_DISTRIBUTION = "jaxobs"


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


@dataclass(frozen=True, slots=True)
class Found:
    """A loaded entry point: either a `plugin` was made from it, or `error` says why not.

    In the group `jaxobs.custom_calls` the plugin is the mapping itself; in the others the object that the class makes.
    """

    group: str
    name: str
    value: str
    distribution: str
    plugin: Any = None
    error: str = ""
    source: str = ""
    """Its name among the sources: with its distribution if another plugin has the name."""

    @property
    def has_own_variables(self) -> bool:
        """Whether variables with its prefix are its own settings; those of built-in plugins are jaxobs's settings."""
        return isinstance(self.plugin, Plugin) and self.distribution.partition(" ")[0] != OWN_DISTRIBUTION


@dataclass(frozen=True, slots=True)
class Announced:
    """An entry point that is not loaded yet. `error` says why it must not be; otherwise it is empty."""

    point: EntryPoint
    built_in: bool
    error: str = ""

    @property
    def source(self) -> str:
        return f"{self.point.name} ({_distribution(self.point)})" if self.error else self.point.name

    def found(self, plugin: Any = None, error: str = "") -> Found:
        """What comes of loading it."""
        point = self.point
        return Found(point.group, point.name, point.value, _distribution(point), plugin, error, self.source)

    def load(self) -> Found:
        """Import it and make the plugin, however long that takes. Raises only what a signal handler raised."""
        if self.error:
            return self.found(error=self.error)
        point = self.point
        try:
            loaded: Any = point.load()
            plugin = loaded if point.group == CUSTOM_CALLS else loaded()
            problem = conformance_problem(point.group, plugin)
            if not problem and isinstance(plugin, Plugin) and plugin.settings is not None:
                plugin.settings = read_of_plugin(point.name, plugin.settings)
        except SettingsError as error:
            problem = str(error)
        except BaseException as error:  # a plugin's import may do anything, SystemExit included
            if is_ctrl_c(error) or raised_by_signal_handler(error):
                raise
            problem = described(error)
        return self.found(error=problem) if problem else self.found(plugin)


def announced(group: str) -> list[Announced]:
    """The entry points of a group: jaxobs's own first, then by name.

    Of two with the same name the first counts, so nobody can replace a built-in plugin. Probes, collectors and
    exporters are all sources, so none of them may have the name of a built-in plugin in another of these groups either.
    """
    found: list[Announced] = []
    seen: dict[str, str] = {}
    every = entry_points()
    points = [(point, _is_built_in(point)) for point in every.select(group=group)]
    others = [point for other in BASES if other != group for point in every.select(group=other)]
    built_ins = {point.name for point in others if group in BASES and _is_built_in(point)}
    for point, built_in in sorted(points, key=lambda pair: (not pair[1], pair[0].name, pair[0].value)):
        if seen.get(point.name) == point.value:
            continue  # one distribution that is on sys.path twice
        reason = ""
        if point.name in seen:
            reason = f"another plugin of this group is named {point.name!r} already"
        elif not built_in and point.name in built_ins:
            reason = f"a plugin of jaxobs itself is named {point.name!r} already"
        seen.setdefault(point.name, point.value)
        found.append(Announced(point, built_in, reason))
    return found


def discover(group: str, patience: float = LOAD_SECONDS) -> list[Found]:
    """Load every plugin of the group separately. A third party's that takes longer than `patience` is left out."""
    loads = [plugin.load if plugin.built_in else _begin_load(plugin, patience) for plugin in announced(group)]
    return [load() for load in loads]


def _begin_load(plugin: Announced, patience: float) -> Callable[[], Found]:
    """Begin to load a third party's plugin on a thread of its own, because it may hang. Returns what waits for that."""
    loaded: list[Found] = []
    try:
        thread = Thread(f"load-{plugin.point.name}", lambda: loaded.append(plugin.load()), awaited=False)
    except RuntimeError as error:
        return partial(plugin.found, error=described(error))
    deadline = monotonic() + patience

    def await_load() -> Found:
        thread.join(deadline - monotonic())
        late = f"its import or its constructor has not returned for {patience:g} s"
        return loaded[0] if loaded else plugin.found(error=late)

    return await_load


def conformance_problem(group: str, plugin: Any) -> str:
    """Why an object is no plugin of that group, and what to do; empty where it is one."""
    return problem_of_rules(plugin) if group == CUSTOM_CALLS else problem_of_plugin(plugin, BASES[group])


def prefixes_of_others() -> tuple[str, ...]:
    """The prefixes of the variables of third parties' plugins (`JAXOBS_EXAMPLE_`), found without loading any."""
    every = entry_points()
    points = [point for group in BASES for point in every.select(group=group)]
    return tuple({prefix(point.name) for point in points if not _is_built_in(point)})


def installed_versions(*distributions: str) -> dict[str, str]:
    """The versions of those of these distributions that are installed."""
    found = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _is_built_in(point: EntryPoint) -> bool:
    return point.dist is not None and point.dist.name == OWN_DISTRIBUTION


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "unknown distribution"
