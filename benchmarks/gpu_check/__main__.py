"""What jaxobs says on this machine's GPU, held against truths that are not its own, within the minutes given.

    python -m benchmarks.gpu_check --minutes 8
    python -m benchmarks.gpu_check --minutes 8 --output results --only training,labels

Needs JAX for the device, jaxobs, and this checkout as the working directory. Each check is a process of its own with a
deadline; one that fails costs the others nothing. Writes DIRECTORY/<time>-<device>.md, anew after each check, and into
DIRECTORY/<time>-<device>/<check> the evidence of each. On a CPU sizes are small, and what needs a GPU is said to be
missing. Exit status 1 where a figure is wrong or a check failed.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from pathlib import Path

from benchmarks.gpu_check.machine import ROOT, find_machine
from benchmarks.gpu_check.results import page
from benchmarks.gpu_check.runner import CHECKS, Outcome, run_all
from benchmarks.truths import chosen


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
    parser.add_argument("--only", help="these checks alone, separated by commas")
    options = parser.parse_args()
    checks = chosen(options.only, ((check.name, check) for check in CHECKS))
    try:
        machine = find_machine()
    except RuntimeError as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 2
    name = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d-%H%M%S}-{machine.slug}"
    evidence, path = options.output / name, options.output / f"{name}.md"
    evidence.mkdir(parents=True)
    title = f"{machine.device_kind}, {machine.facts['date']}"
    outcomes: list[Outcome] = []
    for outcome in run_all(checks, machine, options.minutes, evidence, began):
        outcomes.append(outcome)
        facts = machine.facts | {"took": f"{time.monotonic() - began:.0f} s"}
        path.write_text(page(title, facts, outcomes), encoding="utf-8")
        print(_line(outcome), flush=True)
    print(f"results: {path}", flush=True)
    return 1 if any(outcome.failed or outcome.count("WRONG") for outcome in outcomes) else 0


def _line(outcome: Outcome) -> str:
    counts = ", ".join(
        f"{outcome.count(verdict)} {verdict}" for verdict in ("right", "WRONG", "shown", "absent")
    )
    said = f"{outcome.check.name:32}{outcome.seconds:5.0f} s  {counts}"
    return said + (f"  WRONG: {'; '.join(outcome.wrong)}" if outcome.wrong else "") + f"  {outcome.reason}"


if __name__ == "__main__":
    sys.exit(main())
