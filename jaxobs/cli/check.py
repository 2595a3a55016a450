"""`jaxobs check`: reports what would be observed and shown here, with which settings, and what prevents it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from jaxobs.cli import installed_version
from jaxobs.cli.console.parser import Parser
from jaxobs.report.text_table import TextTable, to_text
from jaxobs.vocabulary.units import ABSENT

SUMMARY = "show settings, devices, peaks, plugins and addresses, and what needs attention"


def run(arguments: list[str]) -> int:
    """Print the report. Returns 1 where something needs attention."""
    parser = Parser("check", SUMMARY, "Exit status 1 if something needs attention.")
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="first measure the peaks of this host's device (`jaxobs calibrate`)",
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    options = parser.options(arguments)
    if options.calibrate:
        # In a separate process, whose output is kept out of the report.
        subprocess.run([sys.executable, "-m", "jaxobs", "calibrate"], stdout=sys.stderr, check=False)
    report = collect()
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        from jaxobs.cli.console.terminal import look_of

        print(to_text(_parts(report), **look_of(sys.stdout)))
    return 1 if report["problems"] else 0


def collect() -> dict[str, Any]:
    """The report as plain data, with all `problems` in one list."""
    from jaxobs.cli.checks.devices import check_devices, hardware_present, read_devices, unused_hardware
    from jaxobs.cli.checks.plugins import problems_of, remarks_of, unknown_settings
    from jaxobs.cli.checks.settings import check_settings, directory_problems, usable_settings
    from jaxobs.cli.plugins import describe, find_plugins
    from jaxobs.config import SETTINGS, plain_settings
    from jaxobs.identity.process import read_identity

    settings = check_settings(os.environ)
    loaded, _ = usable_settings()
    devices = check_devices(read_devices(), loaded)
    found = find_plugins()
    present = hardware_present(found)
    identity = read_identity()
    plain = plain_settings(loaded, rank_on_host=identity.rank_on_host, in_kubernetes=identity.in_kubernetes)
    plugins = [describe(plugin) | {"remarks": remarks_of(plugin, plain)} for plugin in found]
    problems = [problem for part in (settings, devices) for problem in part.pop("problems")]
    problems += unused_hardware(present, devices)
    problems += directory_problems(loaded)
    problems += problems_of(plugins)
    problems += unknown_settings(found, os.environ, SETTINGS)
    if not plugins:
        problems.append("no plugin is installed, not even those of jaxobs: run `pip install jaxobs`")
    return {
        "versions": _versions(devices),
        **settings,
        "devices": devices["devices"],
        "platform": devices["platform"],
        "hardware_present": present,
        "plugins": plugins,
        "problems": problems,
    }


def _versions(devices: dict[str, Any]) -> dict[str, str | None]:
    versions = {name: devices[name] for name in ("jax", "jaxlib")}
    return {"jaxobs": installed_version(), "python": platform.python_version(), **versions}


def _parts(report: dict[str, Any]) -> Iterator[TextTable | str]:
    from jaxobs.cli.checks.devices import peak_notes, peak_rows

    yield ", ".join(f"{name} {version or 'not found'}" for name, version in report["versions"].items())
    yield ""
    table = TextTable(("setting", "value", "from"), left=("value", "from"))
    for name, setting in report["settings"].items():
        value = setting["value"]
        table.add(name, ABSENT if value in (None, {}) else str(value), setting["origin"])
    for name, value in report["variables"].items():
        table.add(name, value, "environment")
    yield table
    yield ""
    for device in report["devices"]:
        yield f"device {device['device']}: {device['kind']} ({device['platform']})"
        if rows := peak_rows(device["peaks"]):
            peaks = TextTable(("peak", "value", "unit", "from"), left=("unit", "from"))
            for row in rows:
                peaks.add(*row)
            yield peaks
        yield from peak_notes(device["peaks"])
    for vendor, names in report["hardware_present"].items():
        yield f"hardware: {', '.join(names)} ({vendor})"
    yield ""
    for plugin in report["plugins"]:
        yield f"plugin {plugin['group']} {plugin['name']}: {plugin['state']} ({plugin['distribution']})"
        yield from (f"  {remark['text']}" for remark in plugin["remarks"])
    yield ""
    yield "needs attention:" if report["problems"] else "nothing needs attention"
    yield from (f"- {problem}" for problem in report["problems"])
