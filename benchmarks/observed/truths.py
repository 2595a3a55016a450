"""What a program says of itself by its own clock: the last line of the form {"truth": {…}}."""

from __future__ import annotations

import json
from typing import Any


def truth_of(stdout: str) -> dict[str, Any] | None:
    """That line's object, or None where the program did not come so far."""
    for line in reversed(stdout.splitlines()):
        if line.startswith('{"truth": '):
            told: dict[str, Any] = json.loads(line)["truth"]
            return told
    return None
