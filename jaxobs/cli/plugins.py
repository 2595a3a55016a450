"""`jaxobs plugins`: lists every installed plugin, and why any of them cannot be loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxobs.cli.check import describe, find_plugins
from jaxobs.cli.console import Parser, print_found
from jaxobs.report.text_table import TextTable

SUMMARY = "list the installed plugins, their metrics, and why one cannot be loaded"


def run(arguments: list[str]) -> int:
    """Print the plugins. Returns 1 where one of them failed, or none is installed."""
    parser = Parser("plugins", SUMMARY, "Exit status 1 if one cannot be loaded.")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    options = parser.options(arguments)
    plugins = [describe(found) for found in find_plugins()]
    print_found(plugins, _parts(plugins), as_json=options.json)
    return 1 if not plugins or any(plugin["error"] for plugin in plugins) else 0


def _parts(plugins: list[dict[str, Any]]) -> Iterator[TextTable | str]:
    """The plugins for people to read: a table, the metrics of each, and what went wrong."""
    if not plugins:
        yield "no plugin is installed, not even those of jaxobs: is jaxobs installed (`pip install jaxobs`)?"
        return
    columns = ("plugin", "group", "state", "metrics", "distribution")
    table = TextTable(columns, left=("group", "state", "distribution"))
    lines: dict[str, list[str]] = {"metrics": [], "settings of plugins": [], "failed": []}
    for plugin in plugins:
        name, metrics = plugin["name"], plugin["metrics"]
        table.add(name, plugin["group"], plugin["state"], str(len(metrics)), plugin["distribution"])
        lines["metrics"] += [f"{name}: {', '.join(metrics)}"] if metrics else []
        lines["settings of plugins"] += [f"{key}: {text}" for key, text in plugin["settings"].items()]
        lines["failed"] += [f"{name} = {plugin['value']}: {plugin['error']}"] if plugin["error"] else []
    yield table
    for title, found in lines.items():
        yield from ("", title, *found) if found else ()
