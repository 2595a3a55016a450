"""`jaxobs analyze`: shows a profiler trace as operations on the roofline, without the device that made it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from jaxobs.cli import UsageError, say, using
from jaxobs.cli.console.parser import Parser

SUMMARY = "show a profiler trace: each operation's time, work, efficiency and source line"

_PEAKS = (
    "Peaks: JAXOBS_PEAK_FLOPS and JAXOBS_PEAK_BYTES_PER_SECOND first, then the data sheet of the device kind, then for "
    "a trace of this host what `jaxobs calibrate` measured, then what the trace says."
)


def run(arguments: list[str]) -> int:
    """Print the analysis of a trace."""
    options = _options(arguments)
    report = _analyze(options.path, options.maximum_bytes)
    if options.html is not None:
        from jaxobs.cli.analysis.page import page

        with using(options.path):
            shown = page(report)
        try:
            Path(options.html).write_text(shown, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {options.html}: {error.strerror or error}") from None
    if options.json:
        with using(options.path):
            shown = json.dumps(report.document, indent=2, allow_nan=False)
        print(shown)
    elif options.html is not None:
        print(f"wrote {options.html}")
    else:
        from jaxobs.cli.analysis.table import report_text
        from jaxobs.cli.console.terminal import look_of

        with using(options.path):
            shown = report_text(report.document, top=options.top, **look_of(sys.stdout))
        print(shown)
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    from jaxobs.trace import DEFAULT_MAXIMUM_BYTES

    parser = Parser("analyze", SUMMARY, _PEAKS)
    parser.add_argument(
        "path", metavar="PATH", help="a file *.xplane.pb, or the directory given to jax.profiler.trace()"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--html", metavar="FILE", help="write one page with a roofline plot that needs nothing else"
    )
    parser.add_argument(
        "--top",
        metavar="N",
        type=_count,
        default=20,
        help="operations shown in the table (default: %(default)s)",
    )
    parser.add_argument(
        "--maximum-bytes", metavar="N", type=_count, default=DEFAULT_MAXIMUM_BYTES,
        help="the largest trace of one host that is read (default: %(default)s)",
    )  # fmt: skip
    return parser.options(arguments)


def _count(value: str) -> int:
    if not value.isascii() or not value.isdecimal() or not int(value):
        raise argparse.ArgumentTypeError(f"{value!r}: give a positive whole number")
    return int(value)


def _analyze(path: str, maximum_bytes: int) -> Any:
    from jaxobs.cli.analysis.report import build_report, peaks_of
    from jaxobs.config import SettingsError, load_settings
    from jaxobs.plugin.custom_calls import load_rules
    from jaxobs.trace import TraceError, read_trace

    try:
        settings = load_settings().to_dict()
        trace = read_trace(Path(path), maximum_bytes=maximum_bytes)
        jaxlibs = {host.name: host.versions.get("jaxlib_version") for host in trace.hosts}
        peaks = {
            (device.host, device.name): peaks_of(device, settings, jaxlibs[device.host])
            for device in trace.devices
        }
    except (SettingsError, TraceError, ValueError) as error:
        raise UsageError(str(error)) from None
    rules = load_rules(lambda problem: say("jaxobs analyze", problem))
    with using(path):
        return build_report(path, trace, peaks, rules)
