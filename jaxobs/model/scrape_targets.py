"""Processes that serve their metrics, as the `file_sd` files name them that they leave for Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

RUN_LABEL: Final = "jaxobs_run"
RANK_LABEL: Final = "jaxobs_rank"
INSTANCE_LABEL: Final = "__param_instance"
SCHEME_LABEL: Final = "__scheme__"

MOST_BYTES: Final = 65_536
"""Of a file that is read; what a rank writes is below 4 KiB."""

_TARGET: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}")


@dataclass(frozen=True, slots=True, order=True)
class ScrapeTarget:
    """One process: its rank, the address of its page, its run, and which process of all that had this port."""

    rank: int
    address: str
    run: str
    instance: str


def read_targets(content: bytes) -> Iterator[ScrapeTarget]:
    """What a `file_sd` file says of processes that jaxobs observes; others, and what is malformed, are left out.

    Raises ValueError where it is no JSON.
    """
    groups = json.loads(content)
    for group in groups if isinstance(groups, list) else ():
        labels = group.get("labels") if isinstance(group, dict) else None
        targets = group.get("targets") if isinstance(group, dict) else None
        if not isinstance(labels, dict) or not isinstance(targets, list):
            continue
        rank, scheme = str(labels.get(RANK_LABEL, "")), str(labels.get(SCHEME_LABEL, "http"))
        for target in targets:
            # Whoever can write into the directory must not be able to have a script behind a link.
            if rank.isdecimal() and scheme in {"http", "https"} and _TARGET.fullmatch(str(target)):
                run, instance = labels.get(RUN_LABEL, ""), labels.get(INSTANCE_LABEL, "")
                yield ScrapeTarget(int(rank), f"{scheme}://{target}/", str(run), str(instance))
