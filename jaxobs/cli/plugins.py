"""`jaxobs plugins`: lists every installed plugin, and why any of them cannot be loaded."""

from __future__ import annotations

import json
import sys
from typing import Any

from jaxobs.cli.check import describe, find_plugins
from jaxobs.cli.console import Parser
from jaxobs.cli.terminal import look_of
from jaxobs.report.text_table import TextTable, to_text

SUMMARY = "list the installed plugins, their metrics, and why one cannot be loaded"


def run(arguments: list[str]) -> int:
    """Print the plugins. Returns 1 where one of them failed, or none is installed."""
    parser = Parser("plugins", SUMMARY, "Exit status 1 if one cannot be loaded.")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    options = parser.options(arguments)
    plugins = [describe(found) for found in find_plugins()]
    if options.json:
        print(json.dumps(plugins, indent=2))
    else:
        print(plugins_text(plugins))
    return 1 if not plugins or any(plugin["error"] for plugin in plugins) else 0


def plugins_text(plugins: list[dict[str, Any]]) -> str:
    """The plugins for people to read: a table, the metrics of each, and what went wrong."""
    if not plugins:
        return "no plugin is installed, not even those of jaxobs: is jaxobs installed (`pip install jaxobs`)?"
    columns = ("plugin", "group", "state", "metrics", "distribution")
    table = TextTable(columns, left=("group", "state", "distribution"))
    lines: dict[str, list[str]] = {"metrics": [], "settings of plugins": [], "failed": []}
    for plugin in plugins:
        name, metrics = plugin["name"], plugin["metrics"]
        table.add(name, plugin["group"], plugin["state"], str(len(metrics)), plugin["distribution"])
        lines["metrics"] += [f"{name}: {', '.join(metrics)}"] if metrics else []
        lines["settings of plugins"] += [f"{key}: {text}" for key, text in plugin["settings"].items()]
        lines["failed"] += [f"{name} = {plugin['value']}: {plugin['error']}"] if plugin["error"] else []
    parts: list[TextTable | str] = [table]
    for title, found in lines.items():
        parts += ["", title, *found] if found else []
    return to_text(parts, **look_of(sys.stdout))
