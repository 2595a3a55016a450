"""What is kept of a job at its end: its last snapshot, or a file with the summary where the job was killed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.files import temporary_directory, write_whole
from jaxobs.report.summary import render

OWNER_ALONE = 0o600
"""Permissions of the file: by default it is in the system's temporary directory, which everybody may read."""


def last_document(document: Mapping[str, Any], undelivered: Mapping[str, str]) -> dict[str, Any]:
    """The last snapshot's document, with a description of what exporters have not delivered, by exporter."""
    return {**document, "agent": {**document["agent"], "undelivered": dict(undelivered)}}


def summary_file(directory: str | None, name: str | None) -> str | None:
    """The path of the summary's file, in the directory of the settings or the system's temporary one.

    None where there is neither, and where the job has not sent its name.
    """
    place = Path(directory) if directory else temporary_directory()
    return None if place is None or name is None else str(place.absolute() / f"jaxobs-{name}-killed.txt")


def leave_summary(file: str | None, snapshot: SnapshotData) -> None:
    """Write the summary of a job that was killed. An error is ignored, because no job is left to report it to."""
    if file is None or not (snapshot["process"]["platform"] or snapshot["loops"]):
        return  # nothing of JAX ran in it
    text = (
        f"The job ended without a word: it was killed, or ended by os._exit.\n{render(snapshot.document)}\n"
    )
    try:
        write_whole(Path(file), text.encode("utf-8", "replace"), OWNER_ALONE)
    except OSError:
        return
