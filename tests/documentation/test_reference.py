"""What the reference says there is, is what there is."""

import re
from importlib.metadata import version

import jaxobs
from tests.derive.made_up import at, new_fold
from tests.documentation.fences import ROOT

REFERENCE = ROOT / "docs" / "reference"


def first_cells(table: str) -> set[str]:
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


def test_the_page_on_the_snapshot_has_each_of_its_keys() -> None:
    keys = set(new_fold().snapshot(at(5)).document)
    listed = first_cells((REFERENCE / "snapshot.md").read_text().partition("## Over HTTP")[0])
    assert listed == {key for key in keys if not key.endswith("_reason") and "_left_out" not in key}


def test_the_page_on_python_has_each_public_name() -> None:
    text = (REFERENCE / "python.md").read_text()
    assert [name for name in jaxobs.__all__ if f"jaxobs.{name}" not in text] == []


def test_what_users_may_call_is_offered_for_completion_and_nothing_else() -> None:
    """Jupyter offered modules of ours, and of what is loaded on first use nothing."""
    assert dir(jaxobs) == sorted(jaxobs.__all__)


def test_the_version_is_that_of_the_installed_package() -> None:
    assert jaxobs.__version__ == version("jaxobs")
