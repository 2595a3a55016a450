"""An exporter from outside the tree: appends the document of each snapshot to a file, one line of JSON each.

Under `histograms` it has the metrics of that kind, which no document holds: by name and labels, a cumulative count
for each upper bound.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

from jaxobs.plugin.base import Exporter

FOLDER = "OBSERVED_DOCUMENTS"
"""The variable that names the folder; without it nothing is written. Each agent has a file of its own there."""

NO_BOUND = 1e300
"""Stands for +Inf, which JSON has not."""


class DocumentExporter(Exporter):
    """The whole document: /metrics has its numbers, but none of its reasons."""

    takes_events = False

    def start(self, agent: Any) -> None:  # noqa: ARG002  # of the contract
        folder = os.environ.get(FOLDER)
        self._path = Path(folder) / f"{os.getpid()}.jsonl" if folder else None

    def export(self, batch: Any) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                document = {**batch.snapshot.document, "histograms": _histograms(batch.snapshot.families)}
                file.write(json.dumps(document) + "\n")


def _histograms(families: Any) -> dict[str, dict[str, list[tuple[float, float]]]]:
    found = {}
    for family in families:
        if family.metric.kind == "histogram":
            bounds = (*family.metric.buckets, NO_BOUND)
            found[family.metric.name] = {
                ",".join(labels): list(zip(bounds, itertools.accumulate(value.counts), strict=True))
                for labels, value in family.series.items()
            }
    return found
