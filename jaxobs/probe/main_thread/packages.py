"""Whose code a file is: the user's, an installed package's, the standard library's, or that of jaxobs."""

from __future__ import annotations

from pathlib import Path, PurePath

from jaxobs.model.source_files import is_installed

USER = ""
STANDARD_LIBRARY = "(standard library)"
OWN = "jaxobs"

FILES_KEPT = 4_096
"""Names of files whose owner is remembered; a program that makes more files of code than that is asked about anew."""

_OWN_FILES = tuple(str(Path(__file__).parents[2] / room) + "/" for room in ("probe", "jax_compat", "measure"))
"""Not the commands': the model that `jaxobs demo` trains is a user's as any other."""
_INSTALLED = ("/site-packages/", "/dist-packages/")


class Packages:
    """Remembers the owner of each file name. A name is all that is looked at: no file is opened."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, file: str) -> str:
        """USER, STANDARD_LIBRARY, or the name of the package."""
        known = self._known.get(file)
        if known is None:
            if len(self._known) >= FILES_KEPT:
                self._known.clear()
            known = self._known[file] = owner(file)
        return known


def owner(file: str) -> str:
    """The owner of a file of code, by its name alone."""
    if file.startswith(_OWN_FILES):
        return OWN
    if not is_installed(file):
        return USER
    for folder in _INSTALLED:
        if folder in file:
            return file.rpartition(folder)[2].partition("/")[0].removesuffix(".py")
    return STANDARD_LIBRARY


def module(file: str) -> str:
    """The name of a module in a line for a reader: `queue` of `/usr/lib/python3.11/queue.py`."""
    path = PurePath(file)
    return path.parent.name if path.stem == "__init__" else path.stem
