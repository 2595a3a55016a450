"""What is known of a job at its end: in the last snapshot, and in a file where the job was killed before it could ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxobs.model.snapshot import Snapshot
from jaxobs.plugin.files import temporary_directory, write_whole

OWNER_ALONE = 0o600
"""The directory is the system's temporary one by default, where everybody may look."""


def last_document(document: Mapping[str, Any], undelivered: Mapping[str, str]) -> dict[str, Any]:
    """The last snapshot's document, with what exporters had not delivered by then, in words, by exporter."""
    return {**document, "agent": {**document["agent"], "undelivered": dict(undelivered)}}


def summary_file(directory: str | None, name: str | None) -> str | None:
    """Where the summary is left: in a directory of the settings, or the system's temporary one.

    None where there is neither, and where the job has not said what it is called.
    """
    place = Path(directory) if directory else temporary_directory()
    return None if place is None or name is None else str(place.absolute() / f"jaxobs-{name}-killed.txt")


def leave_summary(file: str | None, snapshot: Snapshot) -> None:
    """Write the summary of a job that was killed. Where that is impossible nobody is left to be told."""
    if file is None or not (snapshot["process"]["platform"] or snapshot["loops"]):
        return  # nothing of JAX ran in it
    text = f"The job ended without a word: it was killed, or ended by os._exit.\n{snapshot.summary()}\n"
    try:
        write_whole(Path(file), text.encode("utf-8", "replace"), OWNER_ALONE)
    except OSError:
        return
