"""Write the table of settings into README.md: `python docs/generate_settings.py`, with `--check` only compare.

Exit status 1: the table is out of date.
"""  # noqa: INP001  # a script

from __future__ import annotations

import sys
from pathlib import Path

from written_file import write_or_compare

from jaxobs.config import PREFIX, Settings

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->\n"


def table() -> str:
    """One row a setting."""
    rows = ["| variable | default | what |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        shown = (
            ""
            if default is None or default == {}
            else str(default).lower()
            if isinstance(default, bool)
            else default
        )
        rows.append(f"| `{PREFIX}{name.upper()}` | {shown} | {field.description} |")
    return "\n".join(rows) + "\n"


def main(arguments: list[str]) -> int:
    """Write the table, or say that it is out of date."""
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = before + BEGIN + table() + END + after
    return write_or_compare(README, wanted, arguments, "does not list the settings as they are")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
