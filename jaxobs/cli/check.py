"""`jaxobs check`: reports what would be observed and shown here, with which settings, and what prevents it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jaxobs.cli.console import Parser, ProcessFailedError, print_found, result_of
from jaxobs.config import (
    SETTINGS,
    Settings,
    SettingsError,
    load_settings,
    origin,
    plain_settings,
    unknown_settings,
)
from jaxobs.hardware.known_peaks import known_peaks
from jaxobs.plugin.base import Collector, Plugin
from jaxobs.plugin.discovery import (
    COLLECTORS,
    CUSTOM_CALLS,
    EXPORTERS,
    PROBES,
    Found,
    discover,
    installed_versions,
)
from jaxobs.plugin.settings import unknown_variables, variables
from jaxobs.report.tables import rate_unit
from jaxobs.report.text_table import TextTable
from jaxobs.vocabulary.text import masked
from jaxobs.vocabulary.units import ABSENT, amount

SUMMARY = "show settings, devices, peaks, plugins and addresses, and what needs attention"

START_SECONDS = 120.0
"""Seconds after which the start of a backend is taken to hang; on a host with many devices it takes tens of seconds."""

AMD_DRIVER = Path("/dev/kfd")
"""The device file of AMD's compute driver, which exists whatever user-space software is installed."""


def run(arguments: list[str]) -> int:
    """Print the report. Returns 1 if something needs attention."""
    parser = Parser("check", SUMMARY, "Exit status 1 if something needs attention.")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")
    options = parser.options(arguments)
    report = collect()
    print_found(report, _parts(report), as_json=options.json)
    return 1 if report["problems"] else 0


def collect() -> dict[str, Any]:
    """The report as plain data, with all `problems` in one list."""
    from jaxobs.identity import read_identity

    problems = list(unknown_settings(os.environ).values())
    try:
        loaded, told = load_settings(), ""
    except SettingsError as error:
        loaded, told = Settings(), "default"
        problems.append(f"{error}; the defaults are shown, and instrument() would raise")
    devices = check_devices(read_devices(), loaded)
    found = find_plugins()
    present = hardware_present(found)
    identity = read_identity()
    plain = plain_settings(loaded, rank_on_host=identity.rank_on_host, in_kubernetes=identity.in_kubernetes)
    plugins = [describe(plugin) | {"remarks": remarks_of(plugin, plain)} for plugin in found]
    problems += devices["problems"] + unused_hardware(present, devices)
    own = [(plugin.name, plugin.plugin.settings) for plugin in found if plugin.has_own_variables]
    problems += problems_of(plugins) + unknown_variables(own, os.environ, SETTINGS)
    off = f"jaxobs is switched off ({origin('enabled')}): it observes nothing"
    problems += [] if loaded.enabled else [off]
    if not plugins:
        problems.append("no plugin is installed, not even those of jaxobs: run `pip install jaxobs`")
    versions = {"jaxobs": None, "python": platform.python_version()} | installed_versions("jaxobs")
    shown = {name: masked(name.upper(), value) for name, value in loaded.to_dict().items()}
    return {
        "versions": versions | {name: devices[name] for name in ("jax", "jaxlib")},
        "settings": {name: {"value": value, "origin": told or origin(name)} for name, value in shown.items()},
        "variables": variables_shown(os.environ),
        "devices": devices["devices"],
        "platform": devices["platform"],
        "hardware_present": present,
        "plugins": plugins,
        "problems": problems,
    }


def variables_shown(environment: Mapping[str, str]) -> dict[str, str]:
    """OpenTelemetry's variables that are set, secrets masked."""
    found = sorted((name, value) for name, value in environment.items() if name.startswith("OTEL_") and value)
    return {name: masked(name, value) for name, value in found}


def read_devices(timeout: float = START_SECONDS) -> dict[str, Any]:
    """JAX's versions, platform and devices, read in a separate process; or the `error`."""
    try:
        return result_of("jaxobs.measure.device_report", timeout=timeout)
    except ProcessFailedError as error:
        nothing = dict.fromkeys(("jax", "jaxlib", "platform"))
        return {**nothing, "devices": [], "error": f"JAX found no devices: {error}"}


def check_devices(report: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The report with `peaks` beside each device, and `problems`."""
    problems = [f"JAX finds no device: {report['error']}"] if report["error"] else []
    plain, jaxlib, number = settings.to_dict(), report["jaxlib"], len(report["devices"])
    devices = []
    for device in report["devices"]:
        kind, platform_name = device["kind"], device["platform"]
        try:
            peaks = known_peaks(kind, platform_name, jaxlib, plain, devices=number)
        except ValueError as error:
            problems.append(f"the peaks in the settings cannot be used: {error}")
            without = plain | {"peak_flops": {}, "peak_bytes_per_second": None}
            peaks = known_peaks(kind, platform_name, jaxlib, without, devices=number)
        problems += [peaks.reason] if peaks.reason else []
        devices.append({**device, "peaks": peaks.to_dict()})
    return {**report, "devices": devices, "problems": list(dict.fromkeys(problems))}


def hardware_present(plugins: Iterable[Found]) -> dict[str, list[str]]:
    """The accelerators of this host by vendor, from collectors' `devices_present()` and AMD's driver."""
    present: dict[str, list[str]] = {}
    for found in plugins:
        with suppress(Exception):  # a plugin that fails gives no answer
            if isinstance(found.plugin, Collector) and (names := found.plugin.devices_present()):
                present[found.name] = [str(name) for name in names]
    if AMD_DRIVER.exists() and "amd" not in present:
        present["amd"] = [f"an AMD device ({AMD_DRIVER} is there)"]
    return present


def unused_hardware(present: Mapping[str, Sequence[str]], report: Mapping[str, Any]) -> list[str]:
    """A sentence for each vendor whose devices are here while JAX computes on the CPU or not at all."""
    if any(device["platform"] != "cpu" for device in report["devices"]):
        return []
    builds = {"nvidia": "jax[cuda13], or jax[cuda12] for an older driver", "amd": "JAX for ROCm"}
    chosen, runs_on = os.environ.get("JAX_PLATFORMS"), report["platform"] or "nothing"
    said = []
    for vendor, names in present.items():
        cure = f"install {builds.get(vendor, 'the JAX build for it')}"
        cure = f"JAX_PLATFORMS={chosen} keeps JAX to that" if chosen else cure
        said.append(f"{len(names)} × {names[0]} here, and JAX does not use it: it runs on {runs_on}; {cure}")
    return said


def remarks_of(found: Found, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The remarks of a plugin's `check(settings)`, as `text` and `problem`; credentials masked."""
    if not isinstance(found.plugin, Plugin):
        return []
    try:
        remarks = [(str(remark.text), bool(remark.problem)) for remark in found.plugin.check(settings)]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # a plugin may do anything, SystemExit included
        remarks = [(f"its check failed: {type(error).__name__}: {error}", True)]
    return [{"text": masked("", text), "problem": problem} for text, problem in remarks]


def problems_of(plugins: Iterable[Mapping[str, Any]]) -> list[str]:
    """The problems of plugins described with their `remarks`, each after the plugin's name."""
    problems = []
    for plugin in plugins:
        problems += [f"plugin {plugin['name']}: {plugin['error']}"] if plugin["error"] else []
        wrong = (remark["text"] for remark in plugin["remarks"] if remark["problem"])
        problems += [f"{plugin['name']}: {text}" for text in wrong]
    return problems


def _parts(report: Mapping[str, Any]) -> Iterator[TextTable | str]:
    """The report as lines and tables."""
    yield ", ".join(f"{name} {version or 'not found'}" for name, version in report["versions"].items())
    yield ""
    table = TextTable(("setting", "value", "from"), left=("value", "from"))
    for name, setting in report["settings"].items():
        empty = setting["value"] in (None, {})
        table.add(name, ABSENT if empty else str(setting["value"]), setting["origin"])
    for name, value in report["variables"].items():
        table.add(name, value, "environment")
    yield from (table, "")
    for device in report["devices"]:
        yield f"device {device['device']}: {device['kind']} ({device['platform']})"
        peaks = TextTable(("peak", "value", "from"), left=("from",))
        for row in peak_rows(device["peaks"]):
            peaks.add(*row)
        yield from [peaks] if peaks.rows else []
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


def peak_rows(peaks: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The rows of one device's peaks (`Peaks.to_dict()`): name, value and source."""
    rows = [
        (f"{dtype} {unit}", rate_unit(dtype), peak)
        for unit in ("matrix", "vector")
        for dtype, peak in peaks[unit].items()
    ]
    units = {"transcendentals": "/s", "memory": "B/s", "link": "B/s"}
    rows += [(name, unit, peaks[name]) for name, unit in units.items() if peaks[name] is not None]
    return [
        (what, amount(peak["value"], unit), f"{peak['provenance']}: {peak['source']}")
        for what, unit, peak in rows
    ]


def peak_notes(peaks: Mapping[str, Any]) -> list[str]:
    """Lines on the types in which float32 products run."""
    return [
        f"  float32 products at `{precision}` precision run in {runs['type']}"
        + (f", {runs['passes']} passes" if runs["passes"] > 1 else "")
        for precision, runs in peaks["float32_products"].items()
    ]


def find_plugins() -> list[Found]:
    """The plugins of all groups, each loaded separately and none started."""
    return [found for group in (PROBES, COLLECTORS, EXPORTERS, CUSTOM_CALLS) for found in discover(group)]


def describe(found: Found) -> dict[str, Any]:
    """One plugin as plain data: group, name, value, distribution, state, metrics, settings, error."""
    plugin = found.plugin if isinstance(found.plugin, Plugin) else None
    return {
        "group": found.group,
        "name": found.name,
        "value": found.value,
        "distribution": found.distribution,
        "state": "failed" if found.error else "loaded",
        "metrics": sorted(metric.name for metric in plugin.metrics) if plugin else [],
        "settings": variables(found.name, plugin.settings) if plugin else {},
        "error": found.error or None,
    }
