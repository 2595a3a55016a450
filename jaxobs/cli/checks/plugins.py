"""Collects the remarks of plugins, which check their own needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from jaxobs.plugin.base import Plugin
from jaxobs.plugin.discovery import Found
from jaxobs.plugin.settings import unknown_variables
from jaxobs.vocabulary.text import masked


def remarks_of(found: Found, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The remarks of a plugin's `check(settings)`, as `text` and `problem`; credentials masked."""
    plugin = found.plugin
    if not isinstance(plugin, Plugin):
        return []
    try:
        remarks = [(str(remark.text), bool(remark.problem)) for remark in plugin.check(settings)]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # a plugin may do anything, SystemExit included
        remarks = [(f"its check failed: {type(error).__name__}: {error}", True)]
    return [{"text": masked("", text), "problem": problem} for text, problem in remarks]


def unknown_settings(
    plugins: Iterable[Found], environment: Mapping[str, str], settings: Collection[str]
) -> list[str]:
    """A line for each variable with a plugin's prefix that is no setting; `settings` are jaxobs's own."""
    own = [(found.name, found.plugin.settings) for found in plugins if found.has_own_variables]
    return unknown_variables(own, environment, settings)


def problems_of(plugins: Iterable[Mapping[str, Any]]) -> list[str]:
    """The problems of plugins described with their `remarks`, each after the plugin's name."""
    problems = []
    for plugin in plugins:
        problems += [f"plugin {plugin['name']}: {plugin['error']}"] if plugin["error"] else []
        problems += [
            f"{plugin['name']}: {remark['text']}" for remark in plugin["remarks"] if remark["problem"]
        ]
    return problems
