"""What a probe does not override is not called: a default that does nothing must not pass for a success."""

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


def started(name: str) -> Source:
    source = Source(Found(PROBES, name.lower(), f"{__name__}:{name}", "jaxobs 0"), lambda line: None)
    source.begin(FakeJob())
    assert source.ready, source.guard.reason
    return source


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
