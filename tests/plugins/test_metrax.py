"""Scalars that a job logs with Metrax's backends are recorded, by the real library, which logs them as without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import metrax.logging
import numpy as np
import pytest

from jaxobs.jax_compat.runtime import unregister_listeners
from jaxobs.probe.steps.marks import StepMark
from jaxobs.testing import FakeJob, check_probe
from jaxobs_plugins.probes.metrax import MetraxProbe
from tests.probe.conftest import Observed, observed

__all__ = ["observed"]  # a fixture


@pytest.fixture
def backend(tmp_path: Path) -> Any:
    return metrax.logging.TensorboardBackend(str(tmp_path))


def recorded(observed: Observed) -> dict[tuple[str, str], float]:
    return {(event.loop, event.name): event.value for event in observed.side.recorded.ready()}


def test_the_probe_conforms_and_records_what_is_logged(backend: Any) -> None:
    job = check_probe(MetraxProbe(), lambda: backend.log_scalar("/loss", 2.5, step=1))
    assert job.recorded == {"loss": 2.5}


def test_scalars_are_values_of_the_loop_and_reach_the_file_as_without(
    observed: Observed, backend: Any, tmp_path: Path
) -> None:
    with StepMark(observed.side.loops, "train", None, None):
        backend.log_scalar("loss", np.float32(0.5), step=3)
    backend.close()
    assert recorded(observed) == {("train", "loss"): 0.5}
    (file,) = tmp_path.glob("events.*")
    assert b"loss" in file.read_bytes()


def test_of_a_backend_that_listens_to_jax_only_the_jobs_own_values_are_recorded(
    observed: Observed, backend: Any
) -> None:
    jax.monitoring.register_scalar_listener(backend.log_scalar)
    try:
        jax.jit(lambda x: x + 3)(np.ones(3, np.float32))
        jax.monitoring.record_scalar("/train/loss", 0.75, step=1)
    finally:
        unregister_listeners(None, None, backend.log_scalar)
    assert recorded(observed) == {("", "train/loss"): 0.75}


def test_after_stop_the_library_is_what_it_was() -> None:
    before = dict(vars(metrax.logging.TensorboardBackend))
    probe = MetraxProbe()
    probe.start(FakeJob())
    assert dict(vars(metrax.logging.TensorboardBackend)) != before
    probe.stop()
    assert dict(vars(metrax.logging.TensorboardBackend)) == before
