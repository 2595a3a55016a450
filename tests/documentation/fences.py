"""The fenced blocks of README and docs, and the pages they stand in."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Fence:
    page: str
    line: int
    """Of its first line of text, counted from 1."""
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every page that a user reads."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def fences(*languages: str) -> list[Fence]:
    """Those of the languages, or all; in the order of the pages."""
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 2
            language = match[1].partition(" ")[0]
            found.append(Fence(page.relative_to(ROOT).as_posix(), line, language, match[2]))
    return [fence for fence in found if not languages or fence.language in languages]


def by_page(*languages: str) -> dict[str, list[Fence]]:
    found: dict[str, list[Fence]] = {}
    for fence in fences(*languages):
        found.setdefault(fence.page, []).append(fence)
    return found
