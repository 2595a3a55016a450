"""Training processes that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.training import Training
from tests.otel.job import Receiver


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


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A real OTLP/HTTP endpoint."""
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()
