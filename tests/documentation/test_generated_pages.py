"""What the documentation lists is what the code has."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "script",
    [
        "generate_components.py",
        "generate_metrics.py",
        "generate_advice.py",
        "generate_settings.py",
        "generate_command_line.py",
    ],
)
def test_the_tables_are_up_to_date(script: str) -> None:
    command = [sys.executable, str(DOCS / "generators" / script), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


ROOT = DOCS.parent
FILE_NAMED = re.compile(r"`((?:jaxobs|plugins|grafana|tests|docs|\.ci)/[\w./-]+)`")


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/how_it_works/events.md"])
def test_every_file_that_a_page_for_developers_names_is_there(page: str) -> None:
    named = FILE_NAMED.findall((ROOT / page).read_text())
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_each_event_is_followed_through_ten_files_at_most_and_none_twice() -> None:
    _, *walks = re.split(r"^## ", (DOCS / "how_it_works" / "events.md").read_text(), flags=re.MULTILINE)
    assert len(walks) == 5
    for walk in walks:
        files = re.findall(r"^\d+\. `([^`]+)`", walk, flags=re.MULTILINE)
        assert 5 < len(files) <= 10, walk.splitlines()[0]
        assert len(files) == len(set(files)), walk.splitlines()[0]
