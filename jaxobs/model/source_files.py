"""Whose a source file is: the user's program, or a package that was installed."""

from __future__ import annotations

import re

_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python3\.\d+/|\A<frozen ")
"""Where pip and Debian put packages, where Python's own library is, and what is built into Python."""


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package or to Python itself, by its path.

    A package that is installed from a checkout (`pip install --editable`) is the user's own.
    """
    return _INSTALLED.search(file) is not None
