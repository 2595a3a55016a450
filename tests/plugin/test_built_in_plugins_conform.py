"""The built-in plugins pass the checks that third parties are offered."""

import os
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.model.events import Compilation
from jaxobs.plugin.discovery import COLLECTORS, EXPORTERS, PROBES, discover
from jaxobs.testing import check_collector, check_exporter, check_probe


def _plugins(group: str) -> list[Any]:
    return [pytest.param(found, id=found.name) for found in discover(group)]


@pytest.mark.parametrize("found", _plugins(PROBES))
def test_a_probe_conforms(found: Any) -> None:
    assert not found.error
    check_probe(found.plugin)


def test_the_compile_probe_sees_a_compile() -> None:
    [found] = [found for found in discover(PROBES) if found.name == "compile"]

    def use() -> None:
        jax.jit(lambda x: x * 3 + 1)(jnp.ones(7)).block_until_ready()

    job = check_probe(found.plugin, use)
    assert "<lambda>" in [event.function for event in job.events if isinstance(event, Compilation)]


@pytest.mark.parametrize("found", _plugins(COLLECTORS))
def test_a_collector_conforms(found: Any) -> None:
    assert not found.error
    check_collector(found.plugin, pid=os.getpid())


@pytest.mark.parametrize("found", _plugins(EXPORTERS))
def test_an_exporter_conforms(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not found.error
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    check_exporter(
        found.plugin, {"prometheus": True, "rank_on_host": 0, "in_kubernetes": False, "agent": "process"}
    )
