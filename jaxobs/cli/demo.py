"""`jaxobs demo`: train a small language model here and now, observed, and show what jaxobs saw of it."""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

from jaxobs.cli import INTERRUPTED, tell
from jaxobs.cli.check import check_devices, read_devices
from jaxobs.cli.console import Parser, seconds_up_to
from jaxobs.cli.terminal import look_of
from jaxobs.config import Settings, load_settings
from jaxobs.report.summary import render
from jaxobs.vocabulary import InputError

if TYPE_CHECKING:
    from jaxobs import Observer

SUMMARY = "train a small language model, observed, and show what was seen"

DEFAULT_SECONDS = 30.0
MAX_SECONDS = 86_400.0

WINDOWS = 0.02
"""Least share of time that profiler windows may cost the demo: one window costs 0.1 to 0.3 s, which at the default share
is paid for in a minute or two, and two functions are to be seen in half a minute."""


def run(arguments: list[str]) -> int:
    """Calibrate if needed, train, print what was seen. Raises InputError where it cannot."""
    from jaxobs import instrument

    parser = Parser("demo", __doc__)
    parser.add_argument(
        "--seconds", type=seconds_up_to(MAX_SECONDS), default=DEFAULT_SECONDS,
        help="time to train, without the first compile (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the snapshot as JSON instead of tables")
    options, settings = parser.options(arguments), load_settings()
    ensure_peaks(settings)
    budget = settings.profile_budget_ratio and max(settings.profile_budget_ratio, WINDOWS)
    with instrument(run=settings.run or "demo", profile_budget_ratio=budget) as observer:
        return _demonstrate(observer, options)


def ensure_peaks(settings: Settings) -> None:
    """Calibrate if the first device has no matrix peak. A failure is said, and whoever asked continues without peaks.

    JAX is queried in a separate process, because a backend made here would hold a GPU's memory meanwhile.
    Raises InputError where there is no device.
    """
    report = check_devices(read_devices(), settings)
    if not report["devices"]:
        raise InputError(f"JAX finds no device: {report['error']}")
    device = report["devices"][0]
    if device["peaks"]["matrix"]:
        return
    tell(f"no peaks are known for {device['kind']}: they are measured once")
    # Whatever it fails at, it says so itself, and the demo goes on without MFU and efficiency.
    subprocess.run([sys.executable, "-m", "jaxobs", "calibrate"], stdout=subprocess.DEVNULL, check=False)


def _demonstrate(observer: Observer, options: argparse.Namespace) -> int:
    from jaxobs.cli.demonstration import default_size, read_text, train

    text, size = read_text(), default_size()
    tell(
        f"training a transformer ({size.layers} layers of width {size.width}, {size.dtype}, "
        f"{size.tokens:,} tokens a step) for {options.seconds:g} s on {len(text) / 1e6:.1f} MB of the "
        f"sources of Python {platform.python_version()}"
    )
    address = observer.address
    if address:  # else the agent has said why
        tell(f"live page {address.removesuffix('metrics')}, metrics {address}")
    status = 0
    try:
        train(observer, text, size, options.seconds)
    except KeyboardInterrupt:  # what was seen until now is shown
        status = INTERRUPTED
    last = observer.snapshot(timeout=5.0).served_no_more()
    print(last.to_json(indent=1) if options.json else render(last.document, **look_of(sys.stdout)))
    return status
