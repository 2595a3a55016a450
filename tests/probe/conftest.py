"""A probe side with real probes and no agent: what it would have sent can be looked at."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from jaxobs.config import Settings
from jaxobs.probe.side import ProbeSide
from jaxobs.probe.sources import Source
from jaxobs.probe.transport.sender import Agents
from tests.probe.marks_under_a_clock import marks, sent_events

__all__ = ["marks"]  # a fixture


class Observed:
    """The probe side of this process, its events so far, and what it logged."""

    def __init__(self, **settings: Any) -> None:
        self.log: list[str] = []
        plain = Settings(**settings).to_dict() | {"rank_on_host": 0, "in_kubernetes": False}
        self.side = ProbeSide(plain, Agents(_no_agent, dict, lambda kind, body: None), self.log.append)
        self.events: list[Any] = []

    def source(self, name: str) -> Source:
        """One of its probes."""
        (found,) = [source for source in self.side.sources if source.guard.source == name]
        return found

    def of(self, *types: type) -> list[Any]:
        """All events of these types so far."""
        self.events += sent_events(self.side.ring)
        self.events += self.side.loops.unmarked.others_called()
        return [event for event in self.events if isinstance(event, types)]


def _no_agent() -> Any:
    raise OSError("there is none in this test")


@pytest.fixture
def observed() -> Iterator[Observed]:
    """Probes are hooked in while the test runs, and none of them may fail."""
    observer = Observed()
    observer.side.start_probes()
    yield observer
    observer.side.stop(0.0)
    reports = [source.guard.report() for source in observer.side.sources]
    assert all(report.up and not report.failures for report in reports), reports
    assert observer.log == []


@pytest.fixture
def polled(observed: Any) -> Iterator[Any]:
    """The probe side with its polling thread."""
    completions = observed.side.completions
    completions._interval = 0.02
    thread = threading.Thread(target=completions.run)
    thread.start()
    yield observed
    completions.stop()
    thread.join(1.0)
    assert not thread.is_alive()
