"""Reads the `file_sd` files that processes write for Prometheus with the addresses of their metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from jaxobs.report.document import read_json

RUN_LABEL: Final = "jaxobs_run"
RANK_LABEL: Final = "jaxobs_rank"
INSTANCE_LABEL: Final = "__param_instance"
SCHEME_LABEL: Final = "__scheme__"

MOST_BYTES: Final = 65_536
"""Most bytes that are read of a file; a rank writes less than 4 KiB."""

_TARGET: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}")


@dataclass(frozen=True, slots=True, order=True)
class ScrapeTarget:
    """A process: its rank, the address of its page, its run, and its instance id among processes that had this port."""

    rank: int
    address: str
    run: str
    instance: str


def read_targets(content: bytes) -> Iterator[ScrapeTarget]:
    """The processes in a `file_sd` file that jaxobs observes; others and malformed entries are left out.

    Raises ValueError where it is no JSON.
    """
    groups = read_json(content)
    for group in groups if isinstance(groups, list) else ():
        labels = group.get("labels") if isinstance(group, dict) else None
        targets = group.get("targets") if isinstance(group, dict) else None
        if not isinstance(labels, dict) or not isinstance(targets, list):
            continue
        rank, scheme = str(labels.get(RANK_LABEL, "")), str(labels.get(SCHEME_LABEL, "http"))
        for target in targets:
            # A check, because others may write into the directory: an address must not become a link to a script.
            if rank.isdecimal() and scheme in {"http", "https"} and _TARGET.fullmatch(str(target)):
                run, instance = labels.get(RUN_LABEL, ""), labels.get(INSTANCE_LABEL, "")
                yield ScrapeTarget(int(rank), f"{scheme}://{target}/", str(run), str(instance))
