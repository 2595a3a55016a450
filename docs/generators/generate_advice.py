"""Write docs/reference/advice.md from the conditions' docstrings: `python docs/generators/generate_advice.py`.

With `--check` nothing is written; exit status 1: the page is out of date.
"""  # noqa: INP001  # a script

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from written_file import cell, write_or_compare

from jaxobs.derive.advice import CONDITIONS, MAX_PIECES
from jaxobs.derive.advice.of_compiles import MIN_SAVED, REMEDIES
from jaxobs.vocabulary.units import rough_percent

PAGE = Path(__file__).parents[1] / "reference" / "advice.md"
INTRODUCTION = f"""\
# Advice

`print(obs.snapshot())` and the summary of a run show at most {MAX_PIECES} pieces of advice.
`jaxobs/derive/advice/` says why each is so.

| key in the snapshot's `advice` | what |
|---|---|
| `condition`, and `loop`, `function` or `device` | what it is, and what it is about |
| `sentence`, `remedy` | what was seen, and what to do |
| `saves_ratio`, `seconds_per_hour` | what that gives back at most, as a share of wall time |
| `saves_bytes` | of advice that gives back memory alone |
| `seconds_left` | of what will end the job |

What ends the job within the hour is first, then what gives back most time. Left out is what rests on a confidence below
0.1, or would give back less than {rough_percent(MIN_SAVED)} of the wall time. Shares are those of a loop's last half
minute, those of compiles over the age of the process. Two pieces may speak of the same seconds.

"""


def page() -> str:
    """The whole page."""
    lines = []
    for condition in CONDITIONS:
        said = (inspect.getdoc(condition) or "").partition("\nWhy so:")[0]
        for part in ("When", "Gives back"):
            said = re.sub(rf"\n+{part}:", f"\n\n**{part}:**", said)
        lines += [f"## `{condition.__name__}`", "", said, ""]
    lines += ["## Recompilations", "", "| cause | remedy |", "|---|---|"]
    lines += [f"| `{cause}` | {cell(text.format(it='the argument'))} |" for cause, text in REMEDIES.items()]
    return INTRODUCTION + "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or say that it is out of date."""
    return write_or_compare(PAGE, page(), arguments, "does not say what the conditions say")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
