"""A plugin as pip would install it: its module, and a dist-info with its entry points beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(folder: Path, name: str, code: str, entry_points: Mapping[str, str]) -> None:
    """Into a folder for PYTHONPATH: a distribution of one module, `name`.

    `entry_points` by group: `plugin = module:Class`, a line each.
    """
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    sections = [f"[{group}]\n{lines}\n" for group, lines in entry_points.items()]
    (information / "entry_points.txt").write_text("\n".join(sections))
    (folder / f"{name}.py").write_text(code)
