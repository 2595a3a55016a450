"""Write docs/reference/advice.md from the conditions' docstrings: `python docs/generators/generate_advice.py`.

With `--check` nothing is written; exit status 1: the page is out of date.
"""  # noqa: INP001  # a script

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from written_file import cell, write_or_compare

from jaxobs.derive.advice import CONDITIONS, IN_A_TRACE, MAX_PIECES
from jaxobs.derive.advice.of_compiles import MIN_SAVED, REMEDIES
from jaxobs.vocabulary.units import rough_percent

PAGE = Path(__file__).parents[1] / "reference" / "advice.md"
INTRODUCTION = f"""\
# Advice

Written by `make docs` from the docstrings of the conditions (`jaxobs/derive/advice/`); do not edit it here.

A snapshot has at most {MAX_PIECES} pieces of advice under `advice`, and so have the summary at the end of a run and
`jaxobs analyze`. Each names its `condition`, the `loop`, `function` or `device` it is about, what was seen (`sentence`),
what to do (`remedy`), and what that gives back: `saves_ratio`, a share of wall time, and the same as `seconds_per_hour`;
advice that gives back memory alone has `saves_bytes` instead, and what ends the job `seconds_left`. What ends it within the
hour is first, then what gives back most time; what gives back no time comes last.
For a dashboard there are `jaxobs_advice_info`, `jaxobs_advice_saves_ratio` and `jaxobs_advice_saves_bytes`.

What is given back is at most what is said: it is the time that the cause takes, less what is known to remain. Shares of a
loop are those of its last half minute, and count by the loop's part of all loops' wall time; shares of an executable are its
device seconds over that wall time; those of compiles are over the age of the process. Two pieces of advice may speak of
the same seconds. A number that is not known triggers nothing, nor does a bottleneck whose confidence is below 0.1.
Advice on gradients and on the training recipe is given only where a backward pass was compiled.

Left out is advice that would give back less than {rough_percent(MIN_SAVED)} of the wall time, nearly two minutes of
an hour: shares rest on sampled device times, which are known to within 5 %, so that less may be their error, and
nobody could see whether it had helped. Of a condition there is one piece for each loop and each function: several
causes of a function's recompilations are told in one; where several executables of a function, or operations of a
trace's module, meet the same condition, only that which would give back most is told.

"""


def page() -> str:
    """The whole page."""
    lines = []
    for condition in CONDITIONS:
        said = inspect.getdoc(condition) or ""
        for part in ("When", "Gives back", "Why so"):
            said = said.replace(f"\n{part}:", f"\n- **{part}:**")
        lines += [f"## `{condition.__name__}`", "", said, ""]
    offline = ", ".join(f"`{condition.__name__}`" for condition in IN_A_TRACE)
    lines += [f"A trace alone can tell: {offline}; the others need the running job.", ""]
    lines += ["## Recompilations", "", "| cause | remedy |", "|---|---|"]
    lines += [f"| `{cause}` | {cell(text.format(it='the argument'))} |" for cause, text in REMEDIES.items()]
    return INTRODUCTION + "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or say that it is out of date."""
    return write_or_compare(PAGE, page(), arguments, "does not say what the conditions say")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
