"""The page of reasons quotes what jaxobs says."""

import re

import pytest

from tests.documentation.fences import ROOT

SAID = re.compile(r"\"\s*\n\s*f?\"")
"""The seam between two pieces of one text."""

ROWS = re.findall(
    r"^\| `+(.+?)`+ \|",
    (ROOT / "docs" / "questions" / "no_figure.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def sources() -> str:
    files = (file for top in ("jaxobs", "plugins") for file in sorted((ROOT / top).rglob("*.py")))
    return SAID.sub("", "\n".join(file.read_text(encoding="utf-8") for file in files))


@pytest.mark.parametrize("reason", ROWS)
def test_each_reason_on_the_page_is_said(sources: str, reason: str) -> None:
    assert reason in sources
