"""What jaxobs says on this machine's GPU, held against truths that are not its own, within the minutes given.

    python -m benchmarks.gpu_check --minutes 8
    python -m benchmarks.gpu_check --minutes 8 --output results --only training,labels

Needs JAX for the device, jaxobs, and this checkout as the working directory. Each check is a process of its own with a
deadline; one that fails costs the others nothing. Writes DIRECTORY/<date>-<device>.md, anew after each check, and
DIRECTORY/<date>-<device>/<check>.zip, the evidence of each. On a CPU sizes are small, and what needs a GPU is said to be
missing. Exit status 1 where a figure is wrong or a check failed.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.gpu_check.machine import ROOT, find_machine
from benchmarks.gpu_check.results import page
from benchmarks.gpu_check.runner import Outcome, chosen, run_all


def main() -> int:
    """Run the checks; the exit status."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="for all checks together (default: %(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "docs" / "results", help="default: docs/results"
    )
    parser.add_argument("--only", type=_names, help="these checks alone, separated by commas")
    parser.add_argument("--skip", type=_names, default=[], help="all but these checks")
    options = parser.parse_args()
    try:
        checks = chosen(options.only, options.skip)
        machine = find_machine()
    except (ValueError, RuntimeError) as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 2
    name = _unused(options.output, f"{datetime.datetime.now(datetime.UTC).date()}-{machine.slug}")
    options.output.mkdir(parents=True, exist_ok=True)
    path, kept = options.output / f"{name}.md", options.output / name
    title, command = f"{machine.device_kind}, {machine.facts['date']}", _command(options)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        for outcome in run_all(checks, machine, options.minutes, Path(folder), began):
            outcomes.append(outcome)
            if outcome.seconds:
                shutil.make_archive(str(kept / outcome.check.name), "zip", Path(folder, outcome.check.name))
            facts = machine.facts | {"took": f"{time.monotonic() - began:.0f} s"}
            path.write_text(page(title, command, facts, outcomes, kept), encoding="utf-8")
            print(_line(outcome), flush=True)
    print(f"results: {path}", flush=True)
    return 1 if any(outcome.failed or outcome.count("WRONG") for outcome in outcomes) else 0


def _command(options: argparse.Namespace) -> str:
    """What was run, without where it wrote."""
    words = ["python", "-m", "benchmarks.gpu_check", "--minutes", f"{options.minutes:g}"]
    for name, names in (("--only", options.only), ("--skip", options.skip)):
        words += [name, ",".join(names)] if names else []
    return " ".join(words)


def _line(outcome: Outcome) -> str:
    counts = ", ".join(
        f"{outcome.count(verdict)} {verdict}" for verdict in ("right", "WRONG", "shown", "absent")
    )
    said = f"{outcome.check.name:32}{outcome.seconds:5.0f} s  {counts}"
    return said + (f"  WRONG: {'; '.join(outcome.wrong)}" if outcome.wrong else "") + f"  {outcome.reason}"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _unused(folder: Path, name: str) -> str:
    """A name that no results page has yet: pages of a day are not written over."""
    number, free = 1, name
    while (folder / f"{free}.md").exists():
        number += 1
        free = f"{name}-{number}"
    return free


if __name__ == "__main__":
    sys.exit(main())
