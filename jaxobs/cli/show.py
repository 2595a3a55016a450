"""`jaxobs show`: the summary of a run that is over, from its record."""

from __future__ import annotations

import json
import sys

from jaxobs.cli import UsageError, suggestion

SUMMARY = "print the summary of a run again, from the record that it left"

USAGE = """usage: jaxobs show RECORD [--json]
  RECORD  a file that a job left in JAXOBS_RUN_DIRECTORY, or that directory: then the newest run's
  --json  print the whole record as JSON"""

_OPTIONS = ("--json", "--help")


def run(arguments: list[str]) -> int:
    """Prints the summary in a record."""
    from jaxobs.cli.console.record_files import read_record
    from jaxobs.cli.console.terminal import is_styled, terminal_width
    from jaxobs.report.summary import render

    if "--help" in arguments or "-h" in arguments:
        print(USAGE)
        return 0
    wrong = [word for word in arguments if word.startswith("-") and word not in _OPTIONS]
    if wrong:
        raise UsageError(
            f"unknown option {wrong[0]}{suggestion(wrong[0], _OPTIONS)}; `jaxobs show --help` tells more"
        )
    paths = [word for word in arguments if not word.startswith("-")]
    if len(paths) != 1:
        raise UsageError("give one record: a file that a job left in JAXOBS_RUN_DIRECTORY, or that directory")
    record = read_record(paths[0])
    if "--json" in arguments:
        print(json.dumps(record.content, indent=2, allow_nan=False))
        return 0
    if record.content.get("state") == "running":
        print(f"{record.name} was written while the job ran; how it ended is not known.")
    print(render(record.snapshot, width=terminal_width(sys.stdout), bold=is_styled(sys.stdout)))
    return 0
