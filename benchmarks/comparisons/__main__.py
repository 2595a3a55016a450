"""Make the pairs for real and print what is said of each: `python -m benchmarks.comparisons [--only NAME…]`.

Each pair is two runs of `training.py`, each `--seconds` long, one after the other: the same program twice (ten times), a
larger model, a slower loader, float32 for bfloat16, recompiles, another batch size, a loaded machine. Exit status 1: a
cause was not named, or one was invented. On a machine that others use, their load is a cause as well: it is shown.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.beside import busy, without_settings
from jaxobs.cli.show import read_record
from jaxobs.report.comparison import Comparison, compare, relative
from jaxobs.report.differences import Cause
from jaxobs.report.record import Record

TRAINING = Path(__file__).with_name("training.py")


@dataclass(frozen=True)
class Pair:
    """What the second run has otherwise, and the cause that must be named; None where nothing differs."""

    name: str
    cause: Cause | None = None
    changed: dict[str, str] = field(default_factory=dict)
    both: dict[str, str] = field(default_factory=dict)
    loaded: bool = False


PAIRS = (
    *(Pair(f"same_{number}") for number in range(1, 11)),
    Pair("larger_model", Cause.MODEL, {"TRAINING_WIDTH": "512"}),
    Pair("slower_loader", Cause.INPUT, {"TRAINING_WAIT": "0.01"}),
    Pair(
        "float32_for_bfloat16", Cause.PRECISION, {"TRAINING_DTYPE": "float32"}, {"TRAINING_DTYPE": "bfloat16"}
    ),
    Pair("extra_recompiles", Cause.RECOMPILE, {"TRAINING_SHAPES": "4"}),
    Pair("another_batch_size", Cause.BATCH, {"TRAINING_BATCH": "256"}),
    Pair("loaded_machine", Cause.LOAD, loaded=True),
)


def run(directory: Path, seconds: float, extra: dict[str, str], *, loaded: bool) -> Record:
    """One run and its record; `loaded`: beside as many busy processes as there are processors."""
    environment = {
        **without_settings("TRAINING_"),
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(["plugins", "."]),
        "JAXOBS_RUN_DIRECTORY": str(directory),
        "OTEL_EXPORTER_PROMETHEUS_PORT": "0",
        "TRAINING_SECONDS": str(seconds),
        **extra,
    }
    with busy((os.cpu_count() or 1) if loaded else 0):
        subprocess.run(
            [sys.executable, str(TRAINING)],
            env=environment,
            check=True,
            timeout=seconds + 120,
            capture_output=True,
        )
    return read_record(str(directory))


def judged(pair: Pair, comparison: Comparison) -> str:
    """Whether what was said is what is so."""
    causes = {each.cause for each in comparison.differences}
    slower = comparison.step_times[0].verdict
    if pair.cause is not None:
        return "ok" if pair.cause in causes else "not named"
    # What others do on this machine is a cause that nobody made, and yet a true one.
    invented = causes - {Cause.LOAD}
    if invented:
        return f"invented: {', '.join(sorted(invented))}"
    return (
        "ok"
        if slower in {"within the noise", "cannot be told"} or Cause.LOAD in causes
        else f"invented: {slower}"
    )


def main() -> int:
    """Print a line for each pair as it is made."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    wrong = 0
    print(
        "| pair | step time of B beside A | other load, processors | causes named | judged |\n|---|---|---|---|---|"
    )
    for pair in PAIRS:
        if options.only and pair.name not in options.only:
            continue
        with tempfile.TemporaryDirectory() as place:
            before = run(Path(place, "a"), options.seconds, pair.both, loaded=False)
            after = run(Path(place, "b"), options.seconds, pair.both | pair.changed, loaded=pair.loaded)
            comparison = compare(before, after)
        (told, *_) = comparison.step_times
        change = "too few stretches" if told.change is None else f"{relative(told.change)}: {told.verdict}"
        loads = [record.part("host").get("other_cpus") for record in (before, after)]
        load = " → ".join("?" if value is None else f"{value:.2f}" for value in loads)
        named = ", ".join(sorted({str(each.cause) for each in comparison.differences})) or "none"
        judgement = judged(pair, comparison)
        wrong += judgement != "ok"
        print(f"| {pair.name} | {change} | {load} | {named} | {judgement} |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
