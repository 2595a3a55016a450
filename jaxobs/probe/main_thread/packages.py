"""Whose code a file is: the user's, an installed package's, the standard library's, or that of jaxobs."""

from __future__ import annotations

import functools
from pathlib import Path, PurePath

from jaxobs.model.source_files import is_installed
from jaxobs.plugin.wrapping import INTERNAL

USER = ""
STANDARD_LIBRARY = "(standard library)"
OWN = "jaxobs"

FILES_KEPT = 4_096
"""Most file names whose owner is remembered."""

_OWN_FILES = tuple(str(Path(__file__).parents[2] / room) + "/" for room in ("probe", "jax_compat", "measure"))
"""Folders of our own code. The commands are not among them: the model that `jaxobs demo` trains counts as a user's."""
PLUGINS = "/jaxobs_plugins/"
"""In the path of our plugins' files, which lie in another folder in a checkout: some wrap what a library calls."""
_INSTALLED = ("/site-packages/", "/dist-packages/")


@functools.lru_cache(FILES_KEPT)
def owner_of(file: str) -> str:
    """The owner of a file, by its name alone: USER, STANDARD_LIBRARY, or the name of the package. No file is opened."""
    if file.startswith(_OWN_FILES) or PLUGINS in file or file == INTERNAL:
        return OWN
    if not is_installed(file):
        return USER
    for folder in _INSTALLED:
        if folder in file:
            return file.rpartition(folder)[2].partition("/")[0].removesuffix(".py")
    return STANDARD_LIBRARY


def module(file: str) -> str:
    """The name of a file's module, for display: `queue` for `/usr/lib/python3.11/queue.py`."""
    path = PurePath(file)
    return path.parent.name if path.stem == "__init__" else path.stem
