"""Write docs/reference/command_line.md from the commands' own help: `python docs/generators/generate_command_line.py`.

With `--check` nothing is written; exit status 1: the page is out of date.
"""  # noqa: INP001  # a script

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from pathlib import Path

from written_file import write_or_compare

from jaxobs.cli import COMMANDS
from jaxobs.cli import main as jaxobs

PAGE = Path(__file__).parents[1] / "reference" / "command_line.md"
COLUMNS = "100"
"""Width of the help texts that argparse breaks into lines."""
HELP = re.compile(
    r"(\n\noptions:)?\n +-h, --help +show this help message and exit$|\n +-h, --help .*(?=\n)| \[-h\](?= )"
)
"""What each command has."""
INTRODUCTION = """\
# The command line

`jaxobs --help` lists the commands, and each has `--help`. A command that cannot use its input says so on
standard error and exits with status 2. `NO_COLOR` turns colours off.
"""
NOTES = {
    "run": """\
Runs a script or module, observed, [without a change to it](../start/your_script.md): the process becomes the `python
script.py …` that you would have typed. Processes that the script starts are not observed. The options are [the
settings](settings.md):

""",
    "check": """\
It also finds a taken port, a directory that cannot be written, and an endpoint where nobody answers.

""",
    "calibrate": """\
Run it once. A CPU has no datasheet: without this it has no efficiency and no MFU.

""",
    "analyze": """\
Works on any machine, also one without the device.

""",
    "compare": "[What became slower](../questions/what_changed.md) explains how it decides.\n\n",
}


def page() -> str:
    """The whole page."""
    return INTRODUCTION + "".join(_section(command) for command in COMMANDS)


def _section(command: str) -> str:
    text = help_of(command)
    if command == "run":
        text = text.partition("\n\noptions:")[0]
    elif "options:" in text:  # which say all that the usage says
        text = text.partition("\n\n")[2]
    text = HELP.sub("", text)
    return f"\n## `jaxobs {command}`\n\n{NOTES.get(command, '')}```text\n{text}\n```\n"


def help_of(command: str) -> str:
    """What the command prints for `--help`."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        jaxobs([command, "--help"])
    return printed.getvalue().rstrip()


def main(arguments: list[str]) -> int:
    """Write the page, or say that it is out of date."""
    os.environ["COLUMNS"] = COLUMNS
    os.environ["NO_COLOR"] = "1"
    return write_or_compare(PAGE, page(), arguments, "does not say what the commands say")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
