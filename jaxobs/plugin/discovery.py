"""Finds plugins by entry point, checks them, and loads each separately: one that fails is reported, the others run.

Plugins of jaxobs itself are loaded on the calling thread; those of third parties on threads of their own, since an
import or a constructor may do anything, and may hang.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

from jaxobs.model.clock import monotonic
from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Collector, Exporter, Plugin, Probe
from jaxobs.plugin.guard import described, is_ctrl_c, raised_by_signal_handler
from jaxobs.plugin.settings import SettingsError, in_short, prefix, problem_of_settings, read_of_plugin
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
    """A value as text for an error message, with its type."""
    return f"{in_short(value)} (of type {type(value).__name__})"


@dataclass(frozen=True, slots=True)
class Found:
    """An entry point. Once it is loaded, either a `plugin` was made from it, or `error` says why not.

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
    def built_in(self) -> bool:
        return self.distribution.partition(" ")[0] == OWN_DISTRIBUTION

    @property
    def has_own_variables(self) -> bool:
        """Whether variables with its prefix are its own settings; those of built-in plugins are jaxobs's settings."""
        return isinstance(self.plugin, Plugin) and not self.built_in

    def load(self) -> Found:
        """Import it and make the plugin, however long that takes. Raises only what a signal handler raised."""
        if self.error:
            return self
        try:
            loaded: Any = EntryPoint(self.name, self.value, self.group).load()
            plugin = loaded if self.group == CUSTOM_CALLS else loaded()
            problem = conformance_problem(self.group, plugin)
            if not problem and isinstance(plugin, Plugin) and plugin.settings is not None:
                plugin.settings = read_of_plugin(self.name, plugin.settings)
        except SettingsError as error:
            problem = str(error)
        except BaseException as error:  # a plugin's import may do anything, SystemExit included
            if is_ctrl_c(error) or raised_by_signal_handler(error):
                raise
            problem = described(error)
        return replace(self, error=problem) if problem else replace(self, plugin=plugin)


def announced(group: str) -> list[Found]:
    """The entry points of a group, not loaded yet: jaxobs's own first, then by name.

    Of two with the same name the first counts, so nobody can replace a built-in plugin. Probes, collectors and
    exporters are all sources, so none of them may have the name of a built-in plugin in another of these groups either.
    """
    every = _not_loaded({group, *BASES})
    built_ins = {each.name for each in every if each.built_in and group in BASES}
    found: list[Found] = []
    seen: dict[str, str] = {}
    own = (each for each in every if each.group == group)
    for each in sorted(own, key=lambda each: (not each.built_in, each.name, each.value)):
        if seen.get(each.name) == each.value:
            continue  # one distribution that is on sys.path twice
        reason = ""
        if each.name in seen:
            reason = f"another plugin of this group is named {each.name!r} already"
        elif not each.built_in and each.name in built_ins:
            reason = f"a plugin of jaxobs itself is named {each.name!r} already"
        seen.setdefault(each.name, each.value)
        source = f"{each.name} ({each.distribution})" if reason else each.name
        found.append(replace(each, error=reason, source=source))
    return found


def _not_loaded(groups: Collection[str]) -> list[Found]:
    names: dict[int, str] = {}  # by distribution, which reads a file for its name
    found = []
    every = entry_points()
    for group in groups:
        for point in every.select(group=group):
            dist = point.dist
            if id(dist) not in names:
                names[id(dist)] = f"{dist.name} {dist.version}" if dist else "unknown distribution"
            found.append(Found(point.group, point.name, point.value, names[id(dist)]))
    return found


def discover(group: str, patience: float = LOAD_SECONDS) -> list[Found]:
    """Load every plugin of the group separately. A third party's that takes longer than `patience` is left out."""
    loads = [plugin.load if plugin.built_in else _begin_load(plugin, patience) for plugin in announced(group)]
    return [load() for load in loads]


def _begin_load(plugin: Found, patience: float) -> Callable[[], Found]:
    """Begin to load a third party's plugin on a thread of its own, because it may hang. Returns what waits for that."""
    loaded: list[Found] = []
    thread = Thread(f"load-{plugin.name}", lambda: loaded.append(plugin.load()), awaited=False)
    deadline = monotonic() + patience

    def await_load() -> Found:
        thread.join(deadline - monotonic())
        late = f"its import or its constructor has not returned for {patience:g} s"
        return loaded[0] if loaded else replace(plugin, error=late)

    return await_load


def conformance_problem(group: str, plugin: Any) -> str:
    """Why an object is no plugin of that group, and what to do; empty where it is one."""
    return problem_of_rules(plugin) if group == CUSTOM_CALLS else problem_of_plugin(plugin, BASES[group])


def prefixes_of_others() -> tuple[str, ...]:
    """The prefixes of the variables of third parties' plugins (`JAXOBS_EXAMPLE_`), found without loading any."""
    return tuple({prefix(each.name) for each in _not_loaded(BASES.keys()) if not each.built_in})


def installed_versions(*distributions: str) -> dict[str, str]:
    """The versions of those of these distributions that are installed."""
    found = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
