"""Cells of tables whose values have reasons: `–` marks a value that is not known, `*` one that has a reservation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from jaxobs.vocabulary.units import ABSENT

MARK: Final = "*"
"""Marks a value that has a reason beside it, such as an MFU above 1, a lower bound, or a sample."""

_MEANINGS: Final = {ABSENT: "is not known", MARK: "is known with a reserve"}

ROWS_NAMED: Final = 4
"""Most rows named with a reason: one that holds for more rows mostly holds for all."""

_NAMES: Final = {"mfu": "MFU", "hfu": "HFU", "step_seconds": "step time", "seconds_per_run": "time per run"}


class Reasons:
    """The reasons noted while tables are written, each of which is written once below all tables."""

    def __init__(self) -> None:
        self._noted: dict[tuple[str, str], dict[str, dict[str, None]]] = {}

    def __contains__(self, words: str) -> bool:
        """Whether one of the reasons contains these words."""
        return any(words in reason for _, reason in self._noted)

    def cell(self, values: Mapping[str, Any], key: str, write: Callable[[float], str], row: str = "") -> str:
        """The value as text, with its reason noted; a value that has a reason is marked.

        `row` names what the value is of; empty where there is only one row.
        """
        value, reason = values.get(key), values.get(f"{key}_reason")
        mark = (ABSENT if value is None else MARK) if reason else ""
        if mark:
            self.note(mark, str(reason), _NAMES.get(key) or key.replace("_", " "), row)
        if value is None:
            return ABSENT
        return f"{write(value)} {mark}".rstrip()

    def note(self, mark: str, reason: str, name: str, row: str = "") -> None:
        """Note that the value in column `name` of `row` has this reason."""
        self._noted.setdefault((mark, reason), {}).setdefault(row, {})[name] = None

    def lines(self) -> Iterator[str]:
        """A heading and lines such as `– MFU, HFU of `train`: no peaks are known`; nothing where there is no reason."""
        marks = {mark for mark, _ in self._noted}
        if marks:
            yield ", ".join(f"{mark} {meaning}" for mark, meaning in _MEANINGS.items() if mark in marks) + ":"
        for (mark, reason), rows in sorted(self._noted.items(), key=lambda noted: noted[0][0] == MARK):
            alike: dict[tuple[str, ...], list[str]] = {}
            for row, names in rows.items():
                alike.setdefault(tuple(names), []).append(row)
            what = "; ".join(", ".join(names) + _of(named) for names, named in alike.items())
            yield f"  {mark} {what}: {reason}"


def _of(rows: list[str]) -> str:
    named = [f"`{row}`" for row in rows if row]
    if not named:
        return ""
    more = f" and {len(named) - ROWS_NAMED} more" if len(named) > ROWS_NAMED else ""
    return f" of {', '.join(named[:ROWS_NAMED])}{more}"
