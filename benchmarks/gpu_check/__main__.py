"""What jaxobs says on this machine's GPU, held against truths that are not its own, within the minutes given.

    python -m benchmarks.gpu_check --minutes 8
    python -m benchmarks.gpu_check --minutes 8 --output results --only training,labels

Needs JAX for the device, jaxobs, and this checkout as the working directory. Each check is a process of its own with a
deadline; one that fails costs the others nothing. Writes DIRECTORY/<time>-<device>.md, anew after each check, and into
DIRECTORY/<time>-<device>/<check> the evidence of each. On a CPU sizes are small, and what needs a GPU is said to be
missing. Exit status 1 where a figure is wrong or a check failed.
"""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.beside import ROOT
from benchmarks.gpu_check.machine import find_machine
from benchmarks.gpu_check.runner import CHECKS, run_all
from benchmarks.truths import Table, chosen, markdown_table, options_of


def main() -> int:
    """Run the checks; the exit status."""
    began = time.monotonic()
    parser = options_of(__doc__)
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="for all checks together (default: %(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "docs" / "results", help="default: docs/results"
    )
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
    title, table = f"{machine.device_kind}, {machine.facts['date']}", Table()
    for check, figures in run_all(checks, machine, options.minutes, evidence, began):
        table.add(check.name, figures)
        facts = machine.facts | {"took": f"{time.monotonic() - began:.0f} s"}
        path.write_text(page(title, facts, table), encoding="utf-8")
    print(f"results: {path}")
    return table.status()


def page(title: str, facts: Mapping[str, str], table: Table) -> str:
    """The page as Markdown: every figure beside its truth, and why what is missing is missing."""
    told = "Written by `make gpu-check`. What each check does is written in `benchmarks/gpu_check/checks/`."
    parts = f"# Seen on {title}", told, markdown_table(("what", ""), facts.items()), table.text()
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
