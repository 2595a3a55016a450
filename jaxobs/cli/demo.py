"""`jaxobs demo`: train a small language model here and now, observed, and show what jaxobs saw of it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from jaxobs.cli import INTERRUPTED, UsageError, say
from jaxobs.cli.console.parser import Parser, seconds_up_to
from jaxobs.model.clock import sleep

if TYPE_CHECKING:
    from jaxobs import Observer
    from jaxobs.cli.demonstration.model import Size
    from jaxobs.cli.demonstration.text import Text
    from jaxobs.cli.demonstration.training import Outcome

SUMMARY = "train a small language model, observed, and show what was seen"

DEFAULT_SECONDS = 30.0
_MOST_SECONDS = 86_400.0


def run(arguments: list[str]) -> int:
    """Calibrate if needed, train, print what was seen. Raises UsageError for options or settings it cannot use."""
    options = _options(arguments)
    from jaxobs import instrument
    from jaxobs.cli.demonstration.peaks import NoDeviceError, ensure_peaks
    from jaxobs.cli.demonstration.text import NoTextError
    from jaxobs.config import SettingsError, load_settings

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


def _demonstrate(observer: Observer, options: argparse.Namespace) -> int:
    from jaxobs.cli.console.terminal import look_of
    from jaxobs.cli.demonstration import report
    from jaxobs.cli.demonstration.model import default_size
    from jaxobs.cli.demonstration.progress import say as tell
    from jaxobs.cli.demonstration.text import read_text

    text = read_text()
    size = default_size()
    tell(report.headline(text, size, options.seconds))
    address = observer.address
    if address is not None:
        tell(report.where_to_look(address))
    else:
        tell(report.why_nothing_is_served(observer.snapshot().to_dict()))
    outcome = _train(observer, text, size, options.seconds)
    holds = options.hold and not outcome.interrupted
    last = observer.snapshot(timeout=5.0)
    document = (last if holds else last.served_no_more()).to_dict()
    if options.json:
        print(report.as_json(document, outcome, size), flush=True)
    else:
        print(report.as_text(document, outcome, **look_of(sys.stdout)), flush=True)
    if holds:
        _hold(observer)
    return INTERRUPTED if outcome.interrupted else 0


def _train(observer: Observer, text: Text, size: Size, seconds: float) -> Outcome:
    from jaxobs.cli.demonstration.progress import bar
    from jaxobs.cli.demonstration.training import Training

    with tempfile.TemporaryDirectory(prefix="jaxobs-demo-") as folder, bar("training") as shown:

        def progress(share: float, steps: int, loss: float) -> None:
            shown(share, f"step {steps}, loss {loss:.3f}")

        shown(0.0, "compiling")
        return Training(observer, text, size, seconds, progress).run(Path(folder, "parameters.npz"))


def _hold(observer: Observer) -> None:
    print(f"jaxobs demo: {observer.address or 'the process'} stays until Ctrl-C", file=sys.stderr, flush=True)
    try:
        while True:
            sleep(3600)
    except KeyboardInterrupt:
        return


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("demo", __doc__)
    parser.add_argument(
        "--seconds", type=seconds_up_to(_MOST_SECONDS), default=DEFAULT_SECONDS,
        help="time to train, without the first compile (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--hold", action="store_true", help="keep serving the metrics until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of tables")
    return parser.options(arguments)
