"""Finds the ranks of this job on this host, from the `file_sd` files that they write for Prometheus."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jaxobs.model.clock import monotonic
from jaxobs.model.scrape_targets import MOST_BYTES, ScrapeTarget, read_targets
from jaxobs.plugin.files import open_regular
from jaxobs.report.page import Rank
from jaxobs_plugins.prometheus.background_call import BackgroundCall, NoAnswerError
from jaxobs_plugins.prometheus.discovery.target_file import INSTANCE, files_of_host

_EVERY: Final = 5.0  # seconds between looks into the directory, while somebody looks at the page
_MOST_FILES: Final = 64


class Neighbours:
    """The ranks with files in a directory. Reads it on a thread, since a network mount may not answer."""

    def __init__(self, directory: Path, resource: Mapping[str, str]) -> None:
        self._directory = directory
        self._resource = resource
        self._known: tuple[Rank, ...] = ()
        self._looked = -_EVERY
        self._call = BackgroundCall(self._look, "jaxobs-neighbours")

    def ranks(self) -> tuple[Rank, ...]:
        """The ranks found last. Starts another look every few seconds, whose result the next call returns."""
        if monotonic() - self._looked >= _EVERY:
            try:
                self._known = self._call.result(0.0)
            except (NoAnswerError, OSError):
                return self._known
            self._looked = monotonic()
        return self._known

    def _look(self) -> tuple[Rank, ...]:
        found: list[ScrapeTarget] = []
        for path in files_of_host(self._directory, socket.gethostname())[:_MOST_FILES]:
            try:
                with open_regular(path) as file:
                    found += read_targets(file.read(MOST_BYTES))
            except (OSError, ValueError):  # the file was removed meanwhile, or is not one of ours
                continue
        run, own = self._resource.get("jaxobs.run", ""), self._resource.get(INSTANCE, "")
        return tuple(
            Rank(f"rank {target.rank}", None if target.instance == own else target.address)
            for target in sorted(found)
            if target.run == run
        )
