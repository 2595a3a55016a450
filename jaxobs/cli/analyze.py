"""`jaxobs analyze`: a profiler trace as operations on the roofline, without the device that made it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from jaxobs.cli import UsageError, suggestion

SUMMARY = "show a profiler trace: each operation's time, work, efficiency and source line"

USAGE = """usage: jaxobs analyze PATH [--json] [--html FILE] [--top N] [--maximum-bytes N]
  PATH               a file *.xplane.pb, or the directory given to jax.profiler.trace()
  --json             print everything as JSON
  --html FILE        write one page with a roofline plot that needs nothing else
  --top N            operations shown in the table (default 20)
  --maximum-bytes N  the largest trace of one host that is read (default 256 MiB)
Peaks: JAXOBS_PEAK_FLOPS and JAXOBS_PEAK_BYTES_PER_SECOND first, then the data sheet of the device
kind, then for a trace of this host what `jaxobs calibrate` measured, then what the trace says."""

_OPTIONS = ("--json", "--html", "--top", "--maximum-bytes", "--help")
_TOP = 20


def run(arguments: list[str]) -> int:
    """Prints the analysis of a trace."""
    if "--help" in arguments or "-h" in arguments:
        print(USAGE)
        return 0
    options = _parse(arguments)
    report = _analyze(options["path"], options["maximum_bytes"])
    if options["html"] is not None:
        from jaxobs.cli.analysis.page import page

        try:
            Path(options["html"]).write_text(page(report), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {options['html']}: {error.strerror or error}") from None
    if options["json"]:
        print(json.dumps(report.document, indent=2, allow_nan=False))
    elif options["html"] is not None:
        print(f"wrote {options['html']}")
    else:
        from jaxobs.cli.analysis.table import report_text
        from jaxobs.cli.console.terminal import is_styled, terminal_width

        width, colour = terminal_width(sys.stdout), is_styled(sys.stdout)
        print(report_text(report.document, top=options["top"], width=width, colour=colour))
    return 0


def _parse(arguments: list[str]) -> dict[str, Any]:
    from jaxobs.trace import DEFAULT_MAXIMUM_BYTES

    found: dict[str, Any] = {
        "path": None, "json": False, "html": None, "top": _TOP, "maximum_bytes": DEFAULT_MAXIMUM_BYTES,
    }  # fmt: skip
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if word == "--json":
            found["json"] = True
        elif option in {"--html", "--top", "--maximum-bytes"}:
            if not equals:
                if not rest:
                    raise UsageError(f"option {option} needs a value; `jaxobs analyze --help` tells more")
                value = rest.pop(0)
            name = option[2:].replace("-", "_")
            found[name] = value if name == "html" else _count(option, value)
        elif word.startswith("-"):
            raise UsageError(
                f"unknown option {word}{suggestion(word, _OPTIONS)}; `jaxobs analyze --help` tells more"
            )
        elif found["path"] is not None:
            raise UsageError(f"one trace at a time: {found['path']!r} and {word!r} were given")
        else:
            found["path"] = word
    if found["path"] is None:
        raise UsageError("no trace given: a file *.xplane.pb, or the directory of jax.profiler.trace()")
    return found


def _count(option: str, value: str) -> int:
    if not value.isascii() or not value.isdecimal() or not int(value):
        raise UsageError(f"{option} {value!r}: give a positive whole number")
    return int(value)


def _analyze(path: str, maximum_bytes: int) -> Any:
    from jaxobs.cli.analysis.peaks import peaks_of
    from jaxobs.cli.analysis.report import build_report
    from jaxobs.config import SettingsError, load_settings
    from jaxobs.trace import TraceError, read_trace

    try:
        settings = load_settings().model_dump(mode="json")
        trace = read_trace(Path(path), maximum_bytes=maximum_bytes)
        jaxlibs = {host.name: host.versions.get("jaxlib_version") for host in trace.hosts}
        peaks = {
            (device.host, device.name): peaks_of(device, settings, jaxlibs[device.host])
            for device in trace.devices
        }
    except (SettingsError, TraceError, ValueError) as error:
        raise UsageError(str(error)) from None
    return build_report(path, trace, peaks)
