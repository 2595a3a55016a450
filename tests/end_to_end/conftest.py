"""Training processes that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.training import Training
from tests.otel.conftest import receiver

__all__ = ["receiver"]  # a fixture


@pytest.fixture
def start_training(tmp_path: Path) -> Iterator[Callable[..., Training]]:
    """`start_training(script, VARIABLE="value", …)`; see `PREPARE` for what the script finds."""
    started: list[Training] = []

    def start(script: str, **environment: str) -> Training:
        started.append(Training(script, environment, tmp_path / f"errors-{len(started)}"))
        return started[-1]

    yield start
    for training in started:
        training.close()
