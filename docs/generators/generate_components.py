"""Write the table of components in docs/questions/slow.md: `python docs/generators/generate_components.py`.

With `--check` nothing is written; exit status 1: the page is out of date.
"""  # noqa: INP001  # a script

from __future__ import annotations

import sys
from pathlib import Path

from written_file import write_or_compare

from jaxobs.vocabulary.words import Component

PAGE = Path(__file__).parents[1] / "questions" / "slow.md"
BEGIN = "<!-- written by `make docs` from jaxobs/vocabulary/words.py -->\n"
END = "<!-- end -->\n"


def table() -> str:
    """A row for each component: what happens, and what to look at."""
    rows = [f"| `{each.word}` | {each.happens} | {each.remedy} |" for each in Component]
    return "\n".join(["| limited by | what happens | look at |", "|---|---|---|", *rows, ""])


def page() -> str:
    """The page with a new table."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    sys.exit(write_or_compare(PAGE, page(), sys.argv[1:], "is not what the components say"))
