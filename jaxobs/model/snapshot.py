"""The folded state of the training process at one moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxobs.model.metrics import Family


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was known at `time` (monotonic nanoseconds).

    `document` is plain data with the keys `process`, `loops`, `functions`, `executables`, `operations`, `devices`,
    `sources`, `advice` and `agent`; a value that is not known is None and has a sibling `…_reason`. `families` are the
    metrics for exporters; a snapshot that came from another process has none.
    """

    time: int
    document: Mapping[str, Any]
    families: tuple[Family, ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """A copy of the document that the caller may change."""
        copied: dict[str, Any] = json.loads(self.to_json())
        return copied

    def to_json(self, indent: int | None = None) -> str:
        """The document as strict JSON (no NaN or infinity). Raises ValueError if one is in it: that is a defect."""
        return json.dumps(self.document, indent=indent, allow_nan=False)

    def __getitem__(self, key: str) -> Any:
        return self.document[key]
