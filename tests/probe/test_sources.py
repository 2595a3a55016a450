"""When a probe is up: not before it has started, and not by a default method, which does nothing."""

from __future__ import annotations

from jaxobs.plugin.base import Probe
from jaxobs.plugin.discovery import PROBES, Found
from jaxobs.plugin.guard import FAILURES_IN_A_ROW
from jaxobs.plugin.protocol import Job
from jaxobs.probe.sources import Source, Sources
from jaxobs.testing import FakeJob


class Hooked(Probe):
    """Neither sampled nor asked for profiles."""

    def start(self, job: Job) -> None:
        self.reason = "nothing has been imported"


class Sampled(Hooked):
    turns = 0

    def sample(self) -> None:
        self.turns += 1


class Unmade(Hooked):
    def __init__(self) -> None:
        raise ValueError("no such library")


def not_started(name: str) -> Source:
    return Source(Found(PROBES, name.lower(), f"{__name__}:{name}", "jaxobs 0"), lambda line: None)


def started(name: str) -> Source:
    source = not_started(name)
    source.begin(FakeJob())
    assert source.ready, source.guard.reason
    return source


def test_a_probe_is_up_once_it_has_started() -> None:
    source = not_started("Hooked")
    assert not source.guard.report().up
    assert source.guard.report().reason == "its start has not returned yet"
    source.begin(FakeJob())
    assert source.guard.report().up


def test_a_probe_that_cannot_be_made_has_been_up_at_no_moment() -> None:
    source = not_started("Unmade")
    source.begin(FakeJob())
    report = source.guard.report()
    assert (report.up, report.reason, report.failures) == (False, "ValueError: no such library", 1)
    assert report.last_success is None
    assert not source.ready


def test_a_probe_that_overrides_sample_is_sampled() -> None:
    source = started("Sampled")
    before = source.guard.last_success
    source.sample()
    assert isinstance(source.plugin, Probe)
    assert vars(source.plugin)["turns"] == 1
    assert source.guard.last_success != before


def test_the_turns_of_a_probe_without_sample_hide_no_failure_of_its_hooks() -> None:
    source = started("Hooked")
    for _ in range(FAILURES_IN_A_ROW):
        source.sample()
        source.guard.fail("a hook failed")
    assert source.guard.set_aside
    assert source.guard.report().reason == "a hook failed"


def test_a_probe_without_profile_is_not_asked_for_one() -> None:
    sources = Sources(lambda guard: FakeJob(), lambda line: None, lambda: None)
    source = started("Hooked")
    sources._sources = [source]
    assert sources.begin_profile(1.0, False) == "no probe takes profiles: is JAX imported?"
    assert source.guard.failures == 0
