"""Plugins of others that hang for good or raise, each in each of its methods, that flood, and that take names."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.beside import install

METHODS = {
    "probe": ("__init__", "start", "sample", "stop"),
    "collector": ("__init__", "start", "collect", "stop"),
    "exporter": ("__init__", "start", "export", "stop"),
}
PLUGIN = """
import time
from jaxobs.plugin.base import Collector, Exporter, Probe
class Plugin({base}):
    interval = 0.1
    def __init__(self): {__init__}
    def start(self, beside): {start}
    def sample(self): {sample}
    def collect(self): {collect}; return ()
    def export(self, batch): {export}
    def stop(self, timeout=0.0): {stop}
"""

TRAINS = """
import json
import jax, jaxobs
began = time.monotonic()
obs = jaxobs.instrument(interval=0.1)
took = time.monotonic() - began
step = obs.watch(jax.jit(lambda x: x + 1))
slowest = 0.0
step(1.0)
for _ in obs.steps(range(200)):
    began = time.monotonic()
    step(1.0)
    slowest = max(slowest, time.monotonic() - began)
    time.sleep(0.01)
expected = set(os.environ["DOWN"].split(";"))
deadline = time.monotonic() + 40
while True:
    document = obs.snapshot(60).to_dict()
    sources = document["sources"] or {}
    if {name for name, source in sources.items() if not source["up"]} >= expected or time.monotonic() > deadline:
        break
    time.sleep(0.2)
while obs.address is None: time.sleep(0.1)
print(json.dumps([took, slowest, obs.address, document]), flush=True)
sys.stdin.readline()
print("END", time.monotonic(), flush=True)
sys.exit(3)
"""


def broken_plugins(folder: Path, what: str) -> list[str]:
    """One that does `what` in each method of each kind of plugin; their names."""
    names = []
    for kind, methods in METHODS.items():
        for method in methods:
            name = f"{kind}_{method.strip('_')}"
            every = dict.fromkeys({each for of in METHODS.values() for each in of}, "pass")
            code = PLUGIN.format(base=kind.capitalize(), **every | {method: what})
            install(folder, name, code, {f"jaxobs.{kind}s": f"{name} = {name}:Plugin"})
            names.append(name)
    return names


def seconds_of(run: Callable[[], object]) -> float:
    began = time.monotonic()
    run()
    return time.monotonic() - began


def train(start: Callable[..., Any], page: Callable[..., str], down: list[str], **settings: str) -> Any:
    """The job and what it has seen, once the plugins that must be down are; then its end."""
    job = start(TRAINS, observed=False, reads=True, DOWN=";".join(down), **settings)
    said = job.process.stdout.readline()
    assert said, job.end().stderr
    took, slowest, address, document = json.loads(said)
    assert min(seconds_of(lambda: page(address)) for _ in range(3)) < 1.0
    page(address, 'jaxobs_steps_total{loop="train"} 200.0')
    for name in down:  # the page follows the snapshot, on its exporter's thread
        text = page(address, f'jaxobs_source_up{{source="{name}"}} 0.0')
    up = dict(re.findall(r'^jaxobs_source_up\{source="(\w+)"\} (\S+)', text, re.MULTILINE))
    assert document["loops"]["train"]["steps"] == 200
    own = {"compile", "garbage_collection", "memory", "host", "prometheus", "jsonl", "otel"}
    assert {name: up.get(name) for name in own} == dict.fromkeys(own, "1.0")
    agent = job.agent()
    job.say("leave")
    line = job.process.stdout.readline()
    outcome = job.end()
    exit_seconds = time.monotonic() - float(line.split()[1])
    assert outcome.status == 3
    assert agent.is_gone_within(60)
    return took, slowest, document["sources"], up, exit_seconds, outcome.stderr


@pytest.mark.slow
@pytest.mark.fault(3, 10, 42)
def test_plugins_that_hang_are_down_and_everything_else_is_as_without(
    start: Callable[..., Any], page: Callable[..., str], path_with: Callable[[Path], str], tmp_path: Path
) -> None:
    names = broken_plugins(tmp_path / "plugins", "time.sleep(3600)")
    hangs_at_the_end = [name for name in names if name.endswith("_stop")]
    down = [name for name in names if name not in hangs_at_the_end]
    took, slowest, sources, up, exit_seconds, said = train(
        start, page, down, PYTHONPATH=path_with(tmp_path / "plugins")
    )
    assert took < 30.0
    assert slowest < 15.0
    assert {name: up[name] for name in names} == {
        **dict.fromkeys(down, "0.0"), **dict.fromkeys(hangs_at_the_end, "1.0")
    }  # fmt: skip
    assert all(
        "return" in sources[name]["reason"] or "no answer for" in sources[name]["reason"] for name in down
    )
    assert exit_seconds < 15.0
    assert all(line.startswith("jaxobs: ") for line in said.splitlines()), said


@pytest.mark.fault(1, 2, 5, 42)
@pytest.mark.parametrize(
    "raises",
    [
        pytest.param("raise ValueError('boom')", marks=pytest.mark.slow),
        pytest.param("raise SystemExit(9)", marks=pytest.mark.slow),
        "raise KeyboardInterrupt",
    ],
)
def test_plugins_that_raise_are_down_and_everything_else_is_as_without(
    start: Callable[..., Any], page: Callable[..., str], path_with: Callable[[Path], str], tmp_path: Path, raises: str
) -> None:  # fmt: skip
    names = broken_plugins(tmp_path / "plugins", raises)
    down = [name for name in names if not name.endswith("_stop")]
    _, _, sources, up, exit_seconds, said = train(
        start, page, down, PYTHONPATH=path_with(tmp_path / "plugins")
    )
    assert {name: up[name] for name in down} == dict.fromkeys(down, "0.0")
    error = re.findall(r"\w+", raises)[1]
    assert {name: error in sources[name]["reason"] for name in down} == dict.fromkeys(down, True)
    assert exit_seconds < 15.0
    lines = said.splitlines()
    assert all(line.startswith("jaxobs: ") for line in lines), said
    assert len(lines) <= len(names), said  # a line a minute each, at most


FLOODS = """
from jaxobs.model.clock import now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Collector, Probe
LEVEL = Metric("flood_{where}_level", "gauge", "Far too many.", ("name",))
class Plugin(Collector, Probe):
    metrics = (LEVEL,)
    interval = 60.0
    def start(self, beside):
        self.beside = beside
    def sample(self):
        beside, self.beside = self.beside, None
        for number in range(10_000) if beside else ():
            beside.emit(Measured(LEVEL.name, (str(number),), 1.0, now()))
    def collect(self):
        return [Measured(LEVEL.name, (str(number),), 1.0, now()) for number in range(10_000)]
    def stop(self): pass
"""
CORE = (
    "jaxobs_step",
    "jaxobs_compil",
    "jaxobs_executable_flops",
    "jaxobs_source",
    "jaxobs_run_seconds",
    "jaxobs_events",
)
"""Series that any run of the same job has."""

SEEN = """
import jax, jaxobs
obs = jaxobs.instrument(interval=0.1)
step = obs.watch(jax.jit(lambda x: x + 1))
for _ in obs.steps(range(20)):
    step(1.0)
deadline = time.monotonic() + 20
while "host" not in (obs.snapshot(5.0)["sources"] or {}) or obs.snapshot(5.0)["loops"]["train"]["steps"] < 20:
    assert time.monotonic() < deadline
time.sleep(2.5)  # a turn of each plugin
while obs.address is None: time.sleep(0.1)
print(obs.address, flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.fault(43)
def test_plugins_with_ten_thousand_series_each_take_the_place_of_none_of_the_core(
    start: Callable[..., Any], page: Callable[..., str], path_with: Callable[[Path], str], tmp_path: Path
) -> None:
    for where, group in (("job", "probes"), ("agent", "collectors")):
        code = FLOODS.replace("{where}", where)
        install(
            tmp_path / "plugins",
            f"flood_{where}",
            code,
            {f"jaxobs.{group}": f"f{where} = flood_{where}:Plugin"},
        )
    shown = []
    for settings in ({}, {"PYTHONPATH": path_with(tmp_path / "plugins")}):
        job = start(SEEN, observed=False, reads=True, **settings)
        address = job.process.stdout.readline().strip()
        pieces = [f"flood_{where}_level{{" for where in ("job", "agent")] if settings else [""]
        text = [page(address, piece) for piece in pieces][-1]
        job.say("leave")
        outcome = job.end()
        assert (outcome.status, outcome.stderr) == (0, "")
        shown.append({line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")})
    without, flooded = ({name for name in names if name.startswith(CORE)} for names in shown)
    assert len(without) > 30
    assert without - flooded == set()
    limited = {name for name in shown[1] if name.startswith("jaxobs_series_limited_total")}
    assert limited == {
        f'jaxobs_series_limited_total{{metric="flood_{where}_level"}}' for where in ("job", "agent")
    }
    for where in ("job", "agent"):
        assert len([name for name in shown[1] if name.startswith(f"flood_{where}_level")]) == 500


TAKES_NAMES = """
from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Collector, Exporter, Probe
class Plugin(Collector):
    metrics = (Metric("jaxobs_step_seconds_count", "gauge", "What a histogram of the core shows.", ()),)
    interval = 60.0
    def start(self, beside): pass
    def collect(self): return ()
    def stop(self): pass
class Other(Probe, Exporter):
    def start(self, beside): raise ValueError("in the place of a built-in plugin")
    def export(self, batch): pass
"""


@pytest.mark.fault(4, 52, 53)
def test_a_plugin_takes_neither_the_name_of_a_built_in_one_nor_one_on_the_page(
    start: Callable[..., Any], page: Callable[..., str], path_with: Callable[[Path], str], tmp_path: Path
) -> None:
    install(tmp_path / "plugins", "aa_takes", TAKES_NAMES, {
        "jaxobs.collectors": "aa_count = aa_takes:Plugin", "jaxobs.exporters": "prometheus = aa_takes:Other",
        "jaxobs.probes": "compile = aa_takes:Other\nhost = aa_takes:Other",
    })  # fmt: skip
    others = {f"{name} (aa_takes 1.0)": name for name in ("compile", "host", "prometheus")}
    _, _, sources, up, _, _ = train(
        start, page, ["aa_count", *others], PYTHONPATH=path_with(tmp_path / "plugins")
    )
    assert up["aa_count"] == "0.0"
    assert re.search("would both show jaxobs_step_seconds", sources["aa_count"]["reason"])
    for other, name in others.items():
        assert sources[name]["up"]
        assert f"named {name!r} already" in sources[other]["reason"]
