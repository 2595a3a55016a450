"""Colours, limits and words that mean the same on every dashboard."""

from __future__ import annotations

from typing import Final

from jaxobs.vocabulary.words import Component

COMPONENT_COLOURS: Final = {each.word: each.dark for each in Component}
"""As on the page; those for a dark ground, which is Grafana's default and can be told apart on a light one too."""

CATEGORY_COLOURS: Final = {
    "productive": "green", "initialisation": "blue", "compile": "red", "input": "orange",
    "checkpoint": "super-light-blue", "stalled": "dark-red", "other": "text",
}  # fmt: skip

GOOD_WHEN_HIGH: Final = ((0.0, "red"), (0.2, "orange"), (0.4, "green"))
"""MFU and efficiency. 0.4 and more is what well-tuned large models report (PaLM, arXiv:2204.02311, table 3: 46 %)."""

GOODPUT: Final = ((0.0, "red"), (0.8, "orange"), (0.95, "green"))
FILLED: Final = ((0.85, "orange"), (0.95, "red"))
"""Share of a memory in use: above 0.95 the next large array is the last."""
PER_SECOND_AT_THE_RIGHT: Final = {
    "unit": "short", "custom.axisPlacement": "right", "custom.axisLabel": "steps a second",
}  # fmt: skip
"""An axis of its own for steps a second beside shares: 2 of them are not 200 %."""

ANY_IS_BAD: Final = ((1.0, "red"),)

NO_LOOP: Final = "No steps are known: mark them with `obs.steps(loader)`."
NO_PEAK: Final = "The device's peaks are not known: `jaxobs calibrate` measures a CPU's."
NO_CONTAINER: Final = "The process is in no container with such a limit."
