"""An exporter that its settings give nothing to do is left alone, and is up all the same."""

from __future__ import annotations

import pytest

from jaxobs.agent.exporting import Exporting
from jaxobs.model.clock import now
from jaxobs.model.events import Recorded
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.base import Exporter
from jaxobs.plugin.guard import Guard
from jaxobs.plugin.protocol import Agent, Batch
from jaxobs.testing import FakeAgent
from tests.waiting import wait_for


class Idle(Exporter):
    def __init__(self) -> None:
        self.asked = 0
        self.stopped = False

    def start(self, agent: Agent) -> None:
        self.takes_batches = False

    def export(self, batch: Batch) -> None:
        self.asked += 1

    def stop(self, timeout: float) -> None:
        self.stopped = True


def test_an_exporter_that_takes_no_batches_is_not_asked_and_loses_nothing() -> None:
    plugin, guard = Idle(), Guard("idle", "exporter", lambda line: None)
    exporting = Exporting(plugin, guard)
    exporting.start(FakeAgent())
    wait_for(lambda: not exporting.takes_events, "its start")
    before = now()
    exporting.offer(SnapshotData(before, {}), [Recorded("train", "loss", 0.5, before)], ())
    assert guard.up
    assert guard.last_success is not None
    assert guard.last_success >= before
    exporting.finish(1.0)
    exporting.join(10.0)
    assert plugin.stopped
    assert not plugin.asked
    assert exporting.dropped() == (0, "")
    assert not exporting.undelivered()


class Sends(Idle):
    """One that knows after its start alone whether it sends spans."""

    def start(self, agent: Agent) -> None:
        self.sends_spans = True


@pytest.mark.parametrize(("kind", "sends"), [(Sends, True), (Idle, False)])
def test_it_is_known_of_an_exporter_whether_it_sends_spans(kind: type[Idle], sends: bool) -> None:
    exporting = Exporting(kind(), Guard("sends", "exporter", print))
    exporting.start(FakeAgent())
    wait_for(lambda: exporting.guard.last_success is not None, "its start")
    assert exporting.sends_spans == sends
    exporting.finish(1.0)
    exporting.join(10.0)


class WorksOn(Exporter):
    """One that goes on after the job, which need not wait for it."""

    awaited = False

    def export(self, batch: Batch) -> None:
        pass


def test_an_exporter_that_need_not_be_awaited_is_not_worth_waiting_for() -> None:
    works_on = Exporting(WorksOn(), Guard("works_on", "exporter", print))
    works_on.start(FakeAgent())
    wait_for(lambda: works_on.guard.last_success is not None, "its start")
    assert not works_on.worth_waiting_for()
