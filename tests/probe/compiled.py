"""What the probe `compile` told of."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jaxobs.model.events import Compilation


def compilations(observed: Any) -> Counter[str]:
    return Counter(event.function for event in observed.of(Compilation))
