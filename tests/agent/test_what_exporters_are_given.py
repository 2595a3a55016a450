"""What exporters get of the job's events in a real agent, and what is known of those that they lose."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jaxobs.flow import wire
from jaxobs.model.clock import now
from jaxobs.model.events import Event, ProfileWindow
from tests.agent.beside import AgentProcess, service_in_process
from tests.agent.test_agent import backend, created, steps

Start = Callable[..., AgentProcess]
Install = Callable[..., None]

EXPORTER = """
import json
import jaxobs.plugin.guard
jaxobs.plugin.guard.RETRY_SECONDS = 0.5  # a test does not wait for a minute
from jaxobs.plugin import base
class Exporter(base.Exporter):
    calls = 0
    dropped = None
    def delivery(self):
        return base.Delivery(dropped=self.dropped)
    def start(self, agent):
        {start}
    def export(self, batch):
        self.calls += 1
        {export}
        with open({file!r}, "a") as file:
            for event in batch.events:
                print(json.dumps([type(event).__name__, event._asdict()], default=repr), file=file)
    def stop(self, timeout):
        pass
"""


@pytest.fixture
def exported(tmp_path: Path, install_plugin: Install) -> Callable[..., Callable[[], list[Any]]]:
    """Installs an exporter `own` that writes events to a file, and returns what reads them."""
    file = tmp_path / "events"

    def install(start: str = "pass", export: str = "pass") -> Callable[[], list[Any]]:
        code = EXPORTER.format(start=start, export=export, file=str(file))
        install_plugin("own_exporter", code, {"jaxobs.exporters": "own = own_exporter:Exporter"})
        return lambda: [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    return install


def send(agent: AgentProcess, events: Sequence[Event]) -> None:
    """As the job's sender does, payloads in frames of their own."""
    told, payloads = wire.payloads_apart(events)
    agent.pipe.sendall(b"".join(payloads) + wire.events_frame(told)[0])


def own(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["sources"]["own"]
    return found


def metric(agent: AgentProcess) -> float:
    text = agent.metrics_when('jaxobs_exporter_dropped_total{exporter="own"} ')
    return float(text.split('jaxobs_exporter_dropped_total{exporter="own"} ')[1].split("\n")[0])


def test_modules_and_traces_are_the_agents_alone(start_agent: Start, exported: Any) -> None:
    read = exported()
    agent = start_agent()
    module, trace = b"a module's bytes" * 1000, b"a trace's bytes" * 1000
    window = ProfileWindow("scheduled", "read", now() - 2000, now() - 1000, 10, trace, "", "")
    send(agent, [backend(), created(1, module), window, *steps(3)])
    agent.snapshot_when(lambda found: "StepEnded" in {kind for kind, _ in read()})
    agent.finish(5.0)
    events = read()
    assert [kind for kind, _ in events].count("StepEnded") == 3
    (executable,) = [fields for kind, fields in events if kind == "ExecutableCreated"]
    assert (executable["proto"], executable["proto_reason"]) == (None, "the agent alone has it")
    assert (executable["function"], executable["memory"]) == ("f", [["argument", 1]])
    (profiled,) = [fields for kind, fields in events if kind == "ProfileWindow"]
    assert (profiled["kind"], profiled["xspace"]) == ("scheduled", None)
    assert not any("bytes" * 2 in json.dumps(fields) for _, fields in events)


def test_what_one_that_could_not_start_would_have_got_is_counted(start_agent: Start, exported: Any) -> None:
    exported(start="raise OSError('no such place')")
    agent = start_agent()
    agent.send(steps(20))
    document = agent.snapshot_when(lambda found: own(found)["dropped"] >= 20)
    assert own(document)["dropped_reason"] is None
    agent.snapshot_when(lambda _: metric(agent) >= 20)


def test_one_that_fails_may_have_lost_what_it_was_given(start_agent: Start, exported: Any) -> None:
    exported(export="raise OSError('refused')")
    agent = start_agent()
    agent.send(steps(20))
    document = agent.snapshot_when(lambda found: own(found)["dropped"] is None)
    assert own(document)["dropped_reason"].startswith("at least 0: what it was given when export() failed")


def test_one_that_knows_what_it_loses_says_so(start_agent: Start, exported: Any) -> None:
    exported(start="self.dropped = 0", export="self.dropped += len(batch.events); raise OSError('refused')")
    agent = start_agent()
    agent.send(steps(20))
    document = agent.snapshot_when(lambda found: (own(found)["dropped"] or 0) >= 20)
    assert own(document)["dropped_reason"] is None
    agent.snapshot_when(lambda _: metric(agent) >= 20)


def test_what_comes_while_one_is_set_aside_waits_for_it(start_agent: Start, exported: Any) -> None:
    read = exported(export="if self.calls <= 5: raise OSError('refused')")
    agent = start_agent()
    agent.snapshot_when(lambda found: own(found)["failures"] >= 5)
    agent.send(steps(20))
    agent.snapshot_when(lambda found: own(found)["up"])
    agent.snapshot_when(lambda found: [kind for kind, _ in read()].count("StepEnded") == 20)
    assert metric(agent) == 0.0


def test_one_that_cannot_be_loaded_is_given_nothing(start_agent: Start, install_plugin: Install) -> None:
    install_plugin("absent", "import nowhere_to_be_found", {"jaxobs.exporters": "own = absent:Exporter"})
    document = start_agent().snapshot()
    assert (own(document)["dropped"], own(document)["up"]) == (None, False)
    assert "could not be loaded" in own(document)["dropped_reason"]


def test_the_last_snapshot_is_of_the_moment_at_which_the_job_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    offered, settled = list[int](), list[int]()

    def settle(_: float) -> list[Any]:
        settled.append(now())
        return []

    with service_in_process() as (service, _):
        monkeypatch.setattr(service._analysis, "settle", settle)
        exporter = service._plugins.exporters[0]
        monkeypatch.setattr(exporter, "offer", lambda snapshot, *_: offered.append(snapshot.time))
        service._end(None, "killed")
    assert offered[-1] <= settled[-1], "modules are waited for, and other ranks end meanwhile"
