"""`jaxobs show`: prints the summary of a run that is over, from its record."""

from __future__ import annotations

import json
import sys

from jaxobs.cli import using
from jaxobs.cli.console.parser import Parser

SUMMARY = "print the summary of a run again, from the record that it left"


def run(arguments: list[str]) -> int:
    """Print the summary in a record."""
    from jaxobs.cli.console.record_files import read_record
    from jaxobs.cli.console.terminal import look_of
    from jaxobs.report.summary import render

    parser = Parser("show", SUMMARY)
    parser.add_argument(
        "record", metavar="RECORD",
        help="a file that a job left in JAXOBS_RUN_DIRECTORY, or that directory: then the newest run's",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the whole record as JSON")
    options = parser.options(arguments)
    record = read_record(options.record)
    if options.json:
        print(json.dumps(record.content, indent=2, allow_nan=False))
        return 0
    with using(record.name):
        shown = render(record.snapshot, **look_of(sys.stdout))
    if record.content.get("state") == "running":
        print(f"{record.name} was written while the job ran; how it ended is not known.")
    print(shown)
    return 0
