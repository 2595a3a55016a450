"""The checks for those who write plugins say which method is wrong, what it gave, what was expected, and what to do."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from jaxobs.model.clock import now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import DeviceReading, Metric
from jaxobs.plugin.base import Collector, Exporter, Probe
from jaxobs.plugin.protocol import Agent, Batch, Job
from jaxobs.testing import check_collector, check_exporter, check_probe

VALUE = Metric("example_value", "gauge", "A value.", ("device",))
BUSY = Metric("example_busy_ratio", "gauge", "Busy.", ("device",), "ratio")


class Sound(Collector):
    metrics = (VALUE,)
    interval = 0.1
    values: Any = (Measured("example_value", ("0",), 1.0, now()),)

    def collect(self) -> Iterable[Measured]:
        return self.values  # type: ignore[no-any-return]  # anything, for what is wrong


class Hooked(Probe):
    def start(self, job: Job) -> None:
        self.job = job


class Shown(Exporter):
    def export(self, batch: Batch) -> None: ...


def fails(*_: object) -> Any:
    raise OSError("no such device")


COLLECTORS: dict[str, tuple[dict[str, Any], str]] = {
    "another metric": (
        {"values": [Measured("example_other", ("0",), 1.0, now())]},
        r"Wrong.collect\(\): metric example_other was emitted and not declared: add it to `metrics`",
    ),
    "other labels": (
        {"values": [Measured("example_value", (), 1.0, now())]},
        r"Wrong.collect\(\): example_value was emitted with the labels \(\), and has the labels \('device',\)",
    ),
    "a value that is no number": (
        {"values": [Measured("example_value", ("0",), None, now())]},  # type: ignore[arg-type]  # on purpose
        r"the value None \(of type NoneType\), and must be a number: what is not known is not emitted",
    ),
    "nothing at all": (
        {"values": None},
        r"Wrong.collect\(\) returned None \(of type NoneType\), and must return an iterable of .*Measured",
    ),
    "something else among others": (
        {"values": [3.5]},
        r"Wrong.collect\(\) returned 3.5 \(of type float\) among others",
    ),
    "a collect that raises": (
        {"collect": fails},
        r"Wrong.collect\(\) raised OSError: no such device, and must return",
    ),
    "a start that raises": ({"start": fails}, r"Wrong.start\(agent\) raised OSError: .* say so in `reason`"),
    "a stop that raises": ({"stop": fails}, r"Wrong.stop\(\) before start\(\) raised OSError"),
    "a collect that is slow": (
        {"interval": 0.01, "collect": lambda _: time.sleep(0.05) or ()},
        r"Wrong.collect\(\) took 0.\d+ s, longer than its interval 0.01 s: raise the interval",
    ),
    "a reading of what is not declared": (
        {"device_readings": (DeviceReading("utilization", BUSY),)},
        r"example_busy_ratio is read, and not declared: add it to Wrong.metrics",
    ),
    "a name of the core": (
        {"metrics": (Metric("jaxobs_steps_total", "counter", "Steps.", ("loop",)),)},
        r"Wrong.metrics: jaxobs_steps_total belongs to the core: use a prefix of your own",
    ),
    "metrics that are none": ({"metrics": [VALUE]}, r"Wrong.metrics is not a tuple of Metric but \[Metric"),
    "settings that are no model": (
        {"settings": {"limit": 3}},
        r"Wrong.settings, \{'limit': 3\} \(of type dict\): declare a frozen dataclass with a default for every field",
    ),
    "a remark that is none": (
        {"check": lambda _, settings: ["all is well"]},
        r"Wrong.check\(settings\) returned 'all is well' \(of type str\) among others, and must return .*Remark",
    ),
    "a reason that is no text": (
        {"reason": None},
        r"Wrong.reason is None \(of type NoneType\), and must be text",
    ),
}


@pytest.mark.parametrize("name", COLLECTORS)
def test_a_collector_is_told_what_is_wrong_with_it(name: str) -> None:
    changes, said = COLLECTORS[name]
    with pytest.raises(AssertionError, match=said):
        check_collector(type("Wrong", (Sound,), changes)())


def test_a_collector_that_is_right_passes() -> None:
    assert check_collector(Sound()) == list(Sound.values)


def test_a_plugin_that_fails_a_check_is_stopped_all_the_same() -> None:
    class Running(Sound):
        running = False
        values = None

        def start(self, agent: Agent) -> None:
            self.running = True

        def stop(self) -> None:
            self.running = False

    collector = Running()
    with pytest.raises(AssertionError, match="returned None"):
        check_collector(collector)
    assert not collector.running


def test_a_plugin_without_the_base_class_is_told_which_one() -> None:
    class Old:
        metrics = ()

        def start(self, agent: Agent) -> None: ...

        def export(self, batch: Batch) -> None: ...

        def stop(self, timeout: float) -> None: ...

    wrong: Any = Old()
    with pytest.raises(
        AssertionError, match=r"write `class Old\(Exporter\)`, with `from jaxobs.plugin.base import Exp"
    ):
        check_exporter(wrong)


def test_a_setting_without_a_default_is_named() -> None:
    @dataclass(frozen=True)
    class Needy:
        limit: int

    wrong = type("Wrong", (Sound,), {"settings": Needy(limit=3)})
    with pytest.raises(AssertionError, match=r"Wrong.settings, .*: .*missing .*'limit'"):
        check_collector(wrong())


def test_a_hook_that_raises_is_named_with_its_error() -> None:
    class Hooking(Hooked):
        def start(self, job: Job) -> None:
            self.hook = job.guard(fails)
            gc.callbacks.append(self.hook)

        def stop(self) -> None:
            gc.callbacks[:] = [hook for hook in gc.callbacks if hook is not vars(self).get("hook")]

    def collect() -> None:
        gc.collect()

    with pytest.raises(
        AssertionError, match=r"Hooking: a hook wrapped by job.guard raised: .*OSError: no such device"
    ):
        check_probe(Hooking(), collect)


PROBES: dict[str, tuple[str, Callable[..., Any], str]] = {
    "sample": ("sample", fails, r"Wrong.sample\(\) raised OSError: no such device"),
    "start": ("start", fails, r"Wrong.start\(job\) raised OSError: .* `job.switch_off\(reason\)`"),
    "stop": ("stop", lambda self: self.job, r"Wrong.stop\(\) before start\(\) raised AttributeError"),
}


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_is_told_what_is_wrong_with_it(name: str) -> None:
    method, code, said = PROBES[name]
    with pytest.raises(AssertionError, match=said):
        check_probe(type("Wrong", (Hooked,), {method: code})())


EXPORTERS: dict[str, tuple[str, Callable[..., Any], str]] = {
    "export": ("export", fails, r"Wrong.export\(batch\) raised OSError: .* neither events nor spans"),
    "delivery": (
        "delivery",
        lambda _: 3,
        r"Wrong.delivery\(\) returned 3 \(of type int\), and must return .*Delivery",
    ),
    "stop": ("stop", fails, r"Wrong.stop\(timeout\) before start\(\) raised"),
}


@pytest.mark.parametrize("name", EXPORTERS)
def test_an_exporter_is_told_what_is_wrong_with_it(name: str) -> None:
    method, code, said = EXPORTERS[name]
    with pytest.raises(AssertionError, match=said):
        check_exporter(type("Wrong", (Shown,), {method: code})())
