"""What is advised on a document."""

from __future__ import annotations

from typing import Any

from tests.derive.advice.documents import Document, advise


def conditions_of(document: Document) -> list[str]:
    return [piece["condition"] for piece in advise(document)]


def only(document: Document) -> dict[str, Any]:
    (piece,) = advise(document)
    return piece


def after(seconds: float, document: Document) -> Document:
    """The same so long after the process was started."""
    document["process"]["seconds"] = seconds
    return document
