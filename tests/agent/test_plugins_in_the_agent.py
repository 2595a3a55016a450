"""Collectors and exporters that raise, hang or cannot be loaded: the others go on, and each says how it fares."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxobs.model.clock import now
from jaxobs.model.events import BackendFound, SourceReported
from tests.agent.beside import AgentProcess
from tests.agent.test_agent import steps

Start = Callable[..., AgentProcess]
Install = Callable[..., None]

SOON = """
import time
import jaxobs.agent.service
jaxobs.agent.service.STUCK_SECONDS = 0.5  # a test does not wait for ten seconds
"""
EXPORTER = (
    SOON
    + """
from jaxobs.plugin import base
class Exporter(base.Exporter):
    metrics = ()
    def start(self, agent):
        {start}
    def export(self, batch):
        {export}
    def stop(self, timeout):
        {stop}
"""
)
COLLECTOR = (
    SOON
    + """
from jaxobs.plugin import base
class Collector(base.Collector):
    metrics = ()
    interval = 0.1
    def start(self, agent):
        pass
    def collect(self):
        {collect}
    def stop(self):
        pass
"""
)


FADES = (
    SOON
    + """
from jaxobs.model.clock import now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin import base
class Collector(base.Collector):
    metrics = Metric("fades_level", "gauge", "A level."), Metric("fades_things_total", "counter", "Things.")
    interval = 1.5
    turns = 0
    def collect(self):
        self.turns += 1
        if self.turns > 1:
            {silence}
        return [Measured("fades_level", (), 7.0, now()), Measured("fades_things_total", (), 1.0, now())]
"""
)


def exporter(start: str = "pass", export: str = "pass", stop: str = "pass") -> str:
    return EXPORTER.format(start=start, export=export, stop=stop)


def down(agent: AgentProcess, name: str, reason: str) -> None:
    """The plugin is shown as down, and steps and scrapes go on."""
    document = agent.snapshot_when(lambda found: not found["sources"][name]["up"])
    assert reason in document["sources"][name]["reason"]
    agent.send(steps(7))
    text = agent.metrics_when(f'jaxobs_source_up{{source="{name}"}} 0.0')
    assert 'jaxobs_source_up{source="prometheus"} 1.0' in text
    agent.metrics_when('jaxobs_steps_total{loop="train"} 7.0')


def test_an_exporter_that_raises_is_down_and_counted(start_agent: Start, install_plugin: Install) -> None:
    install_plugin(
        "bad_one", exporter(export="raise ValueError('boom')"), {"jaxobs.exporters": "bad = bad_one:Exporter"}
    )
    agent = start_agent()
    down(agent, "bad", "ValueError: boom")
    text = agent.metrics()
    assert 'jaxobs_exporter_failures_total{exporter="prometheus"} 0.0' in text
    assert any(line.startswith("exporter bad failed: ValueError: boom") for line in agent.logs)
    assert len([line for line in agent.logs if "boom" in line]) == 1
    assert agent.finish(20.0) < 10.0


def test_an_exporter_that_hangs_is_down_after_a_while_and_starves_nobody(
    start_agent: Start, install_plugin: Install, tmp_path: Path
) -> None:
    install_plugin(
        "stuck", exporter(export="time.sleep(3600)"), {"jaxobs.exporters": "stuck = stuck:Exporter"}
    )
    agent = start_agent(jsonl_directory=tmp_path / "lines")
    down(agent, "stuck", "no answer for ")
    began = time.monotonic()
    agent.metrics()
    assert time.monotonic() - began < 10.0  # of an hour
    assert agent.finish(1.5) < 10.0  # what it was told, and what a busy machine takes to end a process
    (file,) = (tmp_path / "lines").glob("*.jsonl")
    assert file.read_text().count('"StepEnded"') == 7


def test_an_exporter_that_hangs_while_it_starts_is_down_too(
    start_agent: Start, install_plugin: Install
) -> None:
    install_plugin(
        "stuck", exporter(start="time.sleep(3600)"), {"jaxobs.exporters": "stuck = stuck:Exporter"}
    )
    down(start_agent(), "stuck", "no answer for ")


def test_an_exporter_that_cannot_start_or_exits_is_down(start_agent: Start, install_plugin: Install) -> None:
    install_plugin(
        "quits", exporter(start="raise SystemExit(3)"), {"jaxobs.exporters": "quits = quits:Exporter"}
    )
    down(start_agent(), "quits", "SystemExit: 3")


def test_a_collector_that_hangs_is_down_and_the_scrape_answers_at_once(
    start_agent: Start, install_plugin: Install
) -> None:
    code = COLLECTOR.format(collect="time.sleep(3600)")
    install_plugin("slow", code, {"jaxobs.collectors": "slow = slow:Collector"})
    agent = start_agent()
    down(agent, "slow", "no answer for ")
    first = agent.snapshot()["sources"]["slow"]["seconds"]
    time.sleep(0.3)
    assert agent.snapshot()["sources"]["slow"]["seconds"] >= first + 0.3  # its age grows


def test_a_collector_that_raises_is_down(start_agent: Start, install_plugin: Install) -> None:
    code = COLLECTOR.format(collect="raise OSError('no such device')")
    install_plugin("broken", code, {"jaxobs.collectors": "broken = broken:Collector"})
    down(start_agent(), "broken", "OSError: no such device")


@pytest.mark.parametrize("silence", ["raise OSError('no such device')", "time.sleep(3600)"])
def test_what_a_collector_measured_before_it_fell_silent_is_shown_no_more(
    start_agent: Start, install_plugin: Install, silence: str
) -> None:
    """A device that is lost had its last clock and temperature for the rest of a run of days."""
    install_plugin("fades", FADES.format(silence=silence), {"jaxobs.collectors": "fades = fades:Collector"})
    agent = start_agent()
    agent.metrics_when("fades_level 7.0")
    down(agent, "fades", "no such device" if "OSError" in silence else "no answer for ")
    text = agent.metrics()
    assert "fades_level" not in text
    assert "fades_things_total 1.0" in text


def test_a_collector_that_returns_rubbish_does_not_reach_the_exporters(
    start_agent: Start, install_plugin: Install, tmp_path: Path
) -> None:
    code = COLLECTOR.format(collect="return [1, 'x', None]")
    install_plugin("rubbish", code, {"jaxobs.collectors": "rubbish = rubbish:Collector"})
    agent = start_agent(jsonl_directory=tmp_path / "lines")
    agent.snapshot_when(lambda found: found["agent"]["events_refused"] >= 3)
    agent.send(steps(7))
    assert agent.snapshot()["sources"]["jsonl"]["up"]


def test_a_plugin_that_cannot_be_imported_is_named_with_the_reason(
    start_agent: Start, install_plugin: Install
) -> None:
    install_plugin("absent", "import nowhere_to_be_found", {"jaxobs.exporters": "absent = absent:Exporter"})
    down(start_agent(), "absent", "No module named 'nowhere_to_be_found'")


def test_a_probe_that_only_the_agent_cannot_load_is_shown_as_down(
    start_agent: Start, install_plugin: Install
) -> None:
    install_plugin("half", "raise RuntimeError('not here')", {"jaxobs.probes": "half = half:Probe"})
    agent = start_agent()
    agent.send([SourceReported("half", "probe", True, 0.0, 0, now(), "", now())])
    down(agent, "half", "the agent cannot load it: RuntimeError: not here")


def test_what_a_slow_exporter_loses_is_counted_and_shown(start_agent: Start, install_plugin: Install) -> None:
    few = "jaxobs.agent.exporting.EVENTS_KEPT = 50  # a test does not send 20 000 events\n"
    code = "import jaxobs.agent.exporting\n" + few + exporter(start="time.sleep(3600)")
    install_plugin("stuck", code, {"jaxobs.exporters": "a_stuck = stuck:Exporter"})
    agent = start_agent()
    for _ in range(10):
        agent.send(steps(20))
        agent.snapshot()
    document = agent.snapshot_when(lambda found: found["sources"]["a_stuck"]["dropped"] >= 100)
    assert document["sources"]["prometheus"]["dropped"] == 0
    assert "dropped" not in document["sources"]["host"]
    text = agent.metrics()
    assert 'jaxobs_exporter_dropped_total{exporter="prometheus"} 0.0' in text
    dropped = float(text.split('jaxobs_exporter_dropped_total{exporter="a_stuck"} ')[1].split("\n")[0])
    assert dropped >= 100


IMPORTS_JAX = """
import importlib.util
import sys
import threading
FOUND = importlib.util.find_spec("jax") is not None
{}
from jaxobs.plugin import base
class Exporter(base.Exporter):
    def start(self, agent):
        agent.log(f"found: {{FOUND}}, loaded: {{'jax' in sys.modules}}")
    def export(self, batch):
        pass
    def stop(self, timeout):
        pass
"""


def test_a_plugin_that_imports_jax_into_the_agent_is_refused_and_told_why(
    start_agent: Start, install_plugin: Install
) -> None:
    install_plugin("eager", IMPORTS_JAX.format("import jax"), {"jaxobs.probes": "eager = eager:Exporter"})
    install_plugin("low", IMPORTS_JAX.format("import jaxlib"), {"jaxobs.exporters": "low = low:Exporter"})
    gentle = "try:\n    import jax.numpy\nexcept ImportError:\n    pass"
    install_plugin("gentle", IMPORTS_JAX.format(gentle), {"jaxobs.exporters": "gentle = gentle:Exporter"})
    agent = start_agent()
    agent.send([SourceReported("eager", "probe", True, 0.0, 0, now(), "", now())])
    reason = "ImportError: the agent does not import jax: a probe imports it in start()"
    down(agent, "eager", f"the agent cannot load it: {reason}")
    document = agent.snapshot_when(lambda found: found["sources"]["gentle"]["up"])
    assert document["sources"]["low"]["reason"].startswith("ImportError: the agent does not import jaxlib")
    assert "found: True, loaded: False" in agent.logs


READS_ANOTHER_METRIC = """
from jaxobs.model.clock import now
from jaxobs.model.metrics import DeviceReading
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin import base
BUSY = Metric("other_busy_ratio", "gauge", "Busy.", ("device", "core"), "ratio")
class Collector(base.Collector):
    metrics = (BUSY,)
    device_readings = (DeviceReading("utilization", Metric(BUSY.name, "gauge", "Busy.", ("device",), "ratio")),)
    interval = 0.1
    def start(self, agent):
        pass
    def collect(self):
        return [Measured(BUSY.name, ("0", "1"), 0.5, now())]
    def stop(self):
        pass
"""


def test_a_collector_that_says_of_another_metric_what_it_reads_is_down(
    start_agent: Start, install_plugin: Install
) -> None:
    install_plugin("other", READS_ANOTHER_METRIC, {"jaxobs.collectors": "other = other:Collector"})
    agent = start_agent()
    agent.send([BackendFound("cpu", ((0, "cpu", ""),), 0, 1, "0.10.2", "0.10.2", now())])
    down(agent, "other", "device_readings: other_busy_ratio is none of its metrics")


VISIBLE_DEVICES = """
import os
from jaxobs.model.clock import now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import metric
from jaxobs.plugin.base import Collector

VISIBLE = metric("acme_visible{devices}", "")

class Visible(Collector):
    metrics = (VISIBLE,)
    interval = 0.1

    def collect(self):
        return [Measured(VISIBLE.name, (os.environ.get("CUDA_VISIBLE_DEVICES", "all"),), 1.0, now())]
"""


def test_collectors_have_the_environment_in_which_jax_made_its_backend(
    start_agent: Start, install_plugin: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin("acme", VISIBLE_DEVICES, {"jaxobs.collectors": "acme = acme:Visible"})
    for before, set_later in (("1", None), (None, "3")):
        if before is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
        agent = start_agent()
        agent.metrics_when(f'acme_visible{{devices="{before or "all"}"}} 1.0')
        found = BackendFound("gpu", ((0, "gpu", ""),), 0, 1, "0.10.2", "0.10.2", now())
        agent.send([found._replace(environment=(("CUDA_VISIBLE_DEVICES", set_later),))])
        agent.metrics_when(f'acme_visible{{devices="{set_later or "all"}"}} 1.0')


RESOURCE = """
from jaxobs.model.clock import now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import metric
from jaxobs.plugin.base import Collector

TOLD = metric("acme_told{attributes}", "")

class Told(Collector):
    metrics = (TOLD,)
    interval = 0.1

    def start(self, agent):
        self._agent = agent

    def collect(self):
        told = ",".join(name for name in self._agent.resource if name.startswith("jax."))
        return [Measured(TOLD.name, (told,), 1.0, now())]
"""


def test_the_platform_is_told_last_of_a_backend(start_agent: Start, install_plugin: Install) -> None:
    install_plugin("acme", RESOURCE, {"jaxobs.collectors": "acme = acme:Told"})
    agent = start_agent()
    found = BackendFound("gpu", ((0, "gpu", ""),), 0, 1, "0.10.2", "0.10.2", now(), local_hardware_ids=(0,))
    agent.send([found])
    text = agent.metrics_when('jax.platform"} 1.0')
    assert "jax.local_hardware_ids,jax.platform" in text, "collectors choose their devices then"


LOAD_COLLECTOR = """
import os
from jaxobs.model.clock import now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Collector

LOAD = Metric("acme_load", "gauge", "Processes that run or wait, on average over a minute.", ())

class LoadCollector(Collector):
    metrics = (LOAD,)

    def collect(self):
        return [Measured(LOAD.name, (), os.getloadavg()[0], now())]
"""


def test_a_collector_takes_one_file_and_an_entry_point(start_agent: Start, install_plugin: Install) -> None:
    install_plugin("acme", LOAD_COLLECTOR, {"jaxobs.collectors": "acme = acme:LoadCollector"})
    agent = start_agent()
    text = agent.metrics_when("acme_load ")
    assert "# HELP acme_load Processes that run or wait, on average over a minute." in text
    assert 'jaxobs_source_up{source="acme"} 1.0' in text


def test_a_collectors_number_of_another_library_is_shown_and_spoils_no_file(
    start_agent: Start, install_plugin: Install, tmp_path: Path
) -> None:
    code = LOAD_COLLECTOR.replace("os.getloadavg()[0]", "numpy.float32(1.5)")
    install_plugin("acme", f"import numpy\n{code}", {"jaxobs.collectors": "acme = acme:LoadCollector"})
    agent = start_agent(jsonl_directory=tmp_path / "events")
    agent.metrics_when("acme_load 1.5")
    agent.finish(5.0)
    (file,) = (tmp_path / "events").iterdir()
    assert '"metric":"acme_load","labels":{},"value":1.5}' in file.read_text()
