"""Write docs/reference/settings.md from the settings: `python docs/generators/generate_settings.py`.

With `--check` nothing is written; exit status 1: the page is out of date.
"""  # noqa: INP001  # a script

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from written_file import cell, write_or_compare

from jaxobs.config import PREFIX, SETTINGS
from jaxobs.plugin.discovery import COLLECTORS, EXPORTERS, PROBES, discover
from jaxobs.plugin.settings import declared, prefix

PAGE = Path(__file__).parents[1] / "reference" / "settings.md"
INTRODUCTION = """\
# Settings

`jaxobs check` prints the settings as they are.

Each setting is an environment variable, an argument of `jaxobs.instrument()` (`JAXOBS_INTERVAL` is `interval=`) and an option
of `jaxobs run` (`--interval`), which win over the variable. A value that cannot be used raises `SettingsError` before
training begins; an unknown `JAXOBS_…` variable is reported.

"""
ENDING = """
## Settings of plugins

A plugin's own settings are `JAXOBS_<PLUGIN>_<FIELD>`; `jaxobs plugins` lists those of the plugins that are installed.
{built_in}
## Variables of OpenTelemetry and of launchers

`OTEL_…` variables keep the meaning that they have in OpenTelemetry's Python SDK:

| variable | what |
|---|---|
| `OTEL_EXPORTER_OTLP_ENDPOINT` | where spans and metrics are pushed over OTLP/HTTP (mostly port 4318; no gRPC); those for traces and metrics alone work too |
| `OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT` | where [device time by line](../questions/which_line.md) is pushed |
| `OTEL_EXPORTER_OTLP_TIMEOUT` | seconds, as in the SDK; OpenTelemetry's specification has milliseconds |
| `OTEL_TRACES_SAMPLER` | `always_off` sends no spans; others are not heeded: a span below one of the application's goes where that goes, all others are sent |
| `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE` | not heeded: sums and histograms are cumulative |
| `OTEL_EXPORTER_PROMETHEUS_HOST`, `OTEL_EXPORTER_PROMETHEUS_PORT`, `OTEL_METRICS_EXPORTER` | [where the metrics server listens](../show/metrics_server.md#where-it-listens) |
| `OTEL_SDK_DISABLED` | `true` turns jaxobs off, unless `JAXOBS_ENABLED` is set |
| `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` | who the process is, but for `process.pid`; they win over what jaxobs finds out |

Those of SLURM, Kubernetes and `mpirun` are in [deployment](../show/deployment.md#who-is-who).
"""


def page() -> str:
    """The whole page."""
    rows = ["| variable | default | what |", "|---|---|---|"]
    for name, field in SETTINGS.items():
        rows.append(f"| `{PREFIX}{name.upper()}` | {shown(field.default)} | {cell(field.description)} |")
    return INTRODUCTION + "\n".join(rows) + "\n" + ENDING.format(built_in="\n".join(plugin_rows()))


def shown(default: object) -> str:
    """A default as one writes it in the environment; empty where there is none."""
    if default is None or default == {}:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def plugin_rows() -> Iterator[str]:
    """The settings of the built-in plugins; nothing where none has any."""
    rows = []
    for group in (PROBES, COLLECTORS, EXPORTERS):
        for found in discover(group):
            if not found.value.startswith("jaxobs_plugins.") or found.error or found.plugin.settings is None:
                continue
            for name, field in declared(type(found.plugin.settings)).items():
                variable = prefix(found.name) + name.upper()
                rows.append(f"| `{variable}` | {shown(field.default)} | {cell(field.description)} |")
    if rows:
        yield from ["", "| variable | default | what |", "|---|---|---|", *rows, ""]
    else:
        yield "None of the built-in plugins has any.\n"


def main(arguments: list[str]) -> int:
    """Write the page, or say that it is out of date."""
    return write_or_compare(PAGE, page(), arguments, "does not list the settings as they are")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
