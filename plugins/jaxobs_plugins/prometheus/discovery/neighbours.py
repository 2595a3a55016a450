"""The other ranks of this job on this host, from the `file_sd` files that they leave for Prometheus."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from jaxobs.model.clock import monotonic
from jaxobs.plugin.files import open_regular
from jaxobs.report.page import Rank
from jaxobs_plugins.prometheus.background_call import BackgroundCall, NoAnswerError
from jaxobs_plugins.prometheus.discovery.target_file import INSTANCE, files_of_host

_EVERY: Final = 5.0  # seconds between looks into the directory, while somebody looks at the page
_MOST_FILES: Final = 64
_MOST_BYTES: Final = 65_536  # what a rank writes is below 4 KiB
_TARGET: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}")


class Neighbours:
    """Looks into the directory on a thread, since it may be on a network mount that does not answer: nobody waits."""

    def __init__(self, directory: Path, resource: Mapping[str, str]) -> None:
        self._directory = directory
        self._resource = resource
        self._known: tuple[Rank, ...] = ()
        self._looked = -_EVERY
        self._call = BackgroundCall(self._look, "jaxobs-neighbours")

    def ranks(self) -> tuple[Rank, ...]:
        """As they were found last; another look begins now and then, whose findings are there the next time."""
        if monotonic() - self._looked >= _EVERY:
            try:
                self._known = self._call.result(0.0)
            except (NoAnswerError, OSError):
                return self._known
            self._looked = monotonic()
        return self._known

    def _look(self) -> tuple[Rank, ...]:
        found: list[tuple[int, str, str, str]] = []
        for path in files_of_host(self._directory, socket.gethostname())[:_MOST_FILES]:
            try:
                with open_regular(path) as file:
                    found += _targets(json.loads(file.read(_MOST_BYTES)))
            except (OSError, ValueError):  # it went meanwhile, or is not one of ours
                continue
        run, own = self._resource.get("jaxobs.run", ""), self._resource.get(INSTANCE, "")
        same = sorted((rank, address, instance) for rank, address, job, instance in found if job == run)
        return tuple(
            Rank(f"rank {rank}", None if instance == own else address) for rank, address, instance in same
        )


def _targets(groups: Any) -> Iterator[tuple[int, str, str, str]]:
    """Rank, address of the page, run and instance of each target; what is malformed is left out."""
    for group in groups if isinstance(groups, list) else ():
        labels = group.get("labels") if isinstance(group, dict) else None
        targets = group.get("targets") if isinstance(group, dict) else None
        if not isinstance(labels, dict) or not isinstance(targets, list):
            continue
        rank, scheme = str(labels.get("jaxobs_rank", "")), str(labels.get("__scheme__", "http"))
        for target in targets:
            # Whoever can write into the directory must not be able to have a script behind a link.
            if rank.isdecimal() and scheme in {"http", "https"} and _TARGET.fullmatch(str(target)):
                run, instance = labels.get("jaxobs_run", ""), labels.get("__param_instance", "")
                yield int(rank), f"{scheme}://{target}/", str(run), str(instance)
