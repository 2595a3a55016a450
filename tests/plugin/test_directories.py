"""Whether a directory can be written to is found out without a trace, and without raising."""

from __future__ import annotations

import os
from pathlib import Path

from jaxobs.plugin.files import why_not_writable

NOBODY = 65534


def test_a_directory_that_would_be_made_is_writable_and_is_not_made(tmp_path: Path) -> None:
    assert why_not_writable(tmp_path / "new" / "folder") is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert why_not_writable(tmp_path / "file" / "folder") == f"Not a directory ({tmp_path / 'file'})"


def test_one_below_a_directory_that_may_not_be_looked_into_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    privileged = os.geteuid() == 0
    if privileged:
        os.seteuid(NOBODY)
    try:
        reason = why_not_writable(tmp_path / "closed" / "new")
    finally:
        if privileged:
            os.seteuid(0)
    assert reason is not None
    assert reason.startswith("Permission denied")
