"""`jaxobs demo`: train a small language model here and now, observed, and show what jaxobs saw of it."""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxobs.cli import INTERRUPTED, UsageError, calibrate, say, tell
from jaxobs.cli.check import check_devices, read_devices
from jaxobs.cli.console import Parser, bar, seconds_up_to
from jaxobs.cli.terminal import look_of
from jaxobs.config import Settings, SettingsError, load_settings
from jaxobs.model.clock import sleep
from jaxobs.report.summary import render

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from jaxobs import Observer
    from jaxobs.cli.demonstration import Outcome, Size

SUMMARY = "train a small language model, observed, and show what was seen"

DEFAULT_SECONDS = 30.0
MAX_SECONDS = 86_400.0

LAST_STEPS = 10
"""Steps over which the loss at the end is averaged, because one batch of a thousand bytes says little."""


class NoDeviceError(Exception):
    """JAX has no device to train on; the message says why."""


def run(arguments: list[str]) -> int:
    """Calibrate if needed, train, print what was seen. Raises UsageError for options or settings it cannot use."""
    options = _options(arguments)
    from jaxobs import instrument
    from jaxobs.cli.demonstration import NoTextError

    try:
        settings = load_settings()
        ensure_peaks(settings)
        with instrument(run=settings.run or "demo") as observer:
            return _demonstrate(observer, options)
    except SettingsError as error:
        raise UsageError(str(error)) from None
    except (NoDeviceError, NoTextError) as error:
        say("jaxobs demo", error)
        return 1
    except KeyboardInterrupt:
        say("jaxobs demo", "interrupted")
        return INTERRUPTED


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("demo", __doc__)
    parser.add_argument(
        "--seconds", type=seconds_up_to(MAX_SECONDS), default=DEFAULT_SECONDS,
        help="time to train, without the first compile (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--hold", action="store_true", help="keep serving the metrics until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")
    return parser.options(arguments)


def ensure_peaks(settings: Settings) -> None:
    """Calibrate if the first device has no matrix peak. A failure is said, and whoever asked continues without peaks.

    JAX is queried in a separate process, because a backend made here would hold a GPU's memory meanwhile.
    Raises NoDeviceError.
    """
    report = check_devices(read_devices(), settings)
    if not report["devices"]:
        raise NoDeviceError(f"JAX finds no device: {report['error']}")
    device = report["devices"][0]
    if device["peaks"]["matrix"]:
        return
    tell(
        f"no peaks are known for {device['kind']}: measuring them, once "
        f"({calibrate.DEFAULT_SECONDS:.0f} s and a few to start)"
    )
    # Whatever it fails at, it says so itself, and the demo goes on without MFU and efficiency.
    subprocess.run([sys.executable, "-m", "jaxobs", "calibrate"], stdout=subprocess.DEVNULL, check=False)


def _demonstrate(observer: Observer, options: argparse.Namespace) -> int:
    from jaxobs.cli.demonstration import default_size, read_text

    text, size = read_text(), default_size()
    tell(
        f"training a transformer ({size.layers} layers of width {size.width}, {size.dtype}, "
        f"{size.tokens:,} tokens a step) for {options.seconds:g} s on {len(text) / 1e6:.1f} MB of the "
        f"sources and documentation of Python {platform.python_version()}"
    )
    address = observer.address
    tell(f"metrics: {address}" if address else why_nothing_is_served(observer.snapshot().to_dict()))
    outcome = _train(observer, text, size, options.seconds)
    holds = options.hold and not outcome.interrupted
    last = observer.snapshot(timeout=5.0)
    document = (last if holds else last.served_no_more()).to_dict()
    shown = (
        as_json(document, outcome, size)
        if options.json
        else as_text(document, outcome, **look_of(sys.stdout))
    )
    print(shown, flush=True)
    if holds:
        _hold(observer)
    return INTERRUPTED if outcome.interrupted else 0


def why_nothing_is_served(document: Mapping[str, Any]) -> str:
    """A line on why there is no address, from the snapshot."""
    process = document.get("process") or {}
    reason = process.get("address_reason") or document.get("process_reason")
    return f"no metrics are served: {reason or 'the agent did not say why'}"


def _train(observer: Observer, text: NDArray[np.uint8], size: Size, seconds: float) -> Outcome:
    from jaxobs.cli.demonstration import Training

    with tempfile.TemporaryDirectory(prefix="jaxobs-demo-") as folder, bar("training") as shown:

        def progress(share: float, steps: int, loss: float) -> None:
            shown(share, f"step {steps}, loss {loss:.3f}")

        shown(0.0, "compiling")
        return Training(observer, text, size, seconds, progress).run(Path(folder, "parameters.npz"))


def _hold(observer: Observer) -> None:
    say("jaxobs demo", f"{observer.address or 'the process'} stays until Ctrl-C")
    try:
        while True:
            sleep(3600)
    except KeyboardInterrupt:
        return


def first_and_last_loss(outcome: Outcome) -> dict[str, float | None]:
    """The first loss and the mean of the last ones; None if there is none, or it is not finite."""
    last = outcome.losses[-LAST_STEPS:]
    found = {"first": outcome.losses[:1], "last": [math.fsum(last) / len(last)] if last else []}
    return {name: next(filter(math.isfinite, values), None) for name, values in found.items()}


def as_json(document: Mapping[str, Any], outcome: Outcome, size: Size) -> str:
    """The snapshot's document as JSON, with the figures of the training under `demo`."""
    demo = {
        "loss": first_and_last_loss(outcome),
        "steps": len(outcome.losses),
        "parameters": outcome.parameters,
        "tokens_per_step": size.tokens,
        "seconds": outcome.seconds,
        "interrupted": outcome.interrupted,
    }
    return json.dumps({**document, "demo": demo}, indent=1, allow_nan=False)


def as_text(document: Mapping[str, Any], outcome: Outcome, *, width: int, bold: bool) -> str:
    """The losses and the summary of the snapshot as text."""
    first, last = (
        "–" if value is None else f"{value:.3f}" for value in first_and_last_loss(outcome).values()
    )
    ended = "interrupted after" if outcome.interrupted else "trained"
    return (
        f"{ended} {len(outcome.losses)} steps in {outcome.seconds:.1f} s, "
        f"{outcome.parameters / 1e6:.3g} million parameters\n"
        f"loss {first} → {last} nats a byte (all bytes alike: {math.log(256):.3f})\n\n"
        + render(document, width=width, bold=bold)
    )
