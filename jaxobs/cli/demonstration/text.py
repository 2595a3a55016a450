"""Reads text that every machine has: the sources and documentation of the running Python, as bytes."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

HELD_OUT_EVERY = 20
"""One file in so many is never trained on: 5 % of the text, enough for an evaluation of 10⁵ tokens."""

MOST_BYTES = 64 * 2**20
"""Most text that is read. The standard library without its tests has 12 MB, and users may have added more files."""

_NOT_OF_PYTHON = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


class NoTextError(Exception):
    """This Python has no sources to read (they may be in a zip file, or compiled away)."""


@dataclass(frozen=True, slots=True)
class Text:
    """Bytes to train on and bytes to evaluate with, both one-dimensional arrays of uint8."""

    training: NDArray[np.uint8]
    held_out: NDArray[np.uint8]
    files: int


def read_text(folder: Path | None = None) -> Text:
    """The sources (`*.py`) and documentation (`*.rst`, `*.txt`) in a folder, else those of Python's standard library.

    Raises NoTextError where there is too little to train on.
    """
    documents = [*_documents(folder or Path(sysconfig.get_path("stdlib"))), *([] if folder else [_manual()])]
    held_out = b"\n".join(documents[::HELD_OUT_EVERY])
    training = b"\n".join(text for index, text in enumerate(documents) if index % HELD_OUT_EVERY)
    if min(len(training), len(held_out)) < 2**12:
        raise NoTextError(f"no Python sources to train on in {folder or sysconfig.get_path('stdlib')}")
    return Text(np.frombuffer(training, np.uint8), np.frombuffer(held_out, np.uint8), len(documents))


def windows(
    text: NDArray[np.uint8], examples: int, length: int, random: np.random.Generator
) -> NDArray[np.int32]:
    """A batch of windows at random places of the text.

    Returns:
        int32[examples, length + 1]: in each row `length` bytes, and the one that follows them, the last to predict.
    """
    starts = random.integers(0, len(text) - length, size=examples)
    places = starts[:, None] + np.arange(length + 1)
    return np.asarray(text[places], np.int32)


def _documents(folder: Path) -> Iterator[bytes]:
    """The contents of the files, in the order of their names, so that a run can be repeated."""
    left = MOST_BYTES
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _NOT_OF_PYTHON)  # `os.walk` skips those removed here
        for name in sorted(names):
            if not name.endswith((".py", ".rst", ".txt")) or left <= 0:
                continue
            try:
                content = Path(place, name).read_bytes()[:left]
            except OSError:  # a broken link, or a file of another user
                continue
            left -= len(content)
            yield content


def _manual() -> bytes:
    """The chapters of the language reference that `help()` shows."""
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some distributions leave it out
        return b""
    return "\n\n".join(topics.values()).encode()
