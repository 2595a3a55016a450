"""Tells source files of the user's program from those of installed packages."""

from __future__ import annotations

import re

_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python3\.\d+/|\A<frozen ")
"""Paths of packages installed by pip and Debian, of Python's own library, and of modules built into Python."""

DEMONSTRATION = "/jaxobs/cli/demonstration.py"
"""The model that `jaxobs demo` trains, which counts as a user's, wherever it is installed."""


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package or to Python itself, by its path.

    A package that is installed from a checkout (`pip install --editable`) counts as the user's own.
    """
    return _INSTALLED.search(file) is not None and DEMONSTRATION not in file
