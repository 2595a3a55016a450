"""Scalars that a job writes with CLU's writers are recorded, by the real library, which writes them as without."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import jax.numpy as jnp
import pytest

from jaxobs.probe.steps.marks import StepMark
from jaxobs.testing import FakeJob, check_probe
from jaxobs_plugins.probes.clu import CluProbe
from tests.probe.conftest import Observed, observed

__all__ = ["observed"]  # a fixture


@pytest.fixture
def metric_writers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`clu.metric_writers`, which cannot be imported without TensorFlow, used by its `SummaryWriter` alone.

    That is 600 MB, so modules of those names stand in for it.
    """
    hparams = ModuleType("tensorboard.plugins.hparams")
    hparams.api = SimpleNamespace()  # type: ignore[attr-defined]  # a module made here
    for name in ("tensorflow", "tensorboard", "tensorboard.plugins"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, hparams.__name__, hparams)
    yield importlib.import_module("clu.metric_writers")
    for name in [name for name in sys.modules if name.startswith("clu.metric_writers")]:
        del sys.modules[name]


def recorded(observed: Observed) -> dict[tuple[str, str], float]:
    return {(event.loop, event.name): event.value for event in observed.side.recorded.ready()}


def test_the_probe_conforms_and_records_what_is_written(metric_writers: Any) -> None:
    job = check_probe(CluProbe(), lambda: metric_writers.LoggingWriter().write_scalars(1, {"loss": 2.5}))
    assert job.recorded == {"loss": 2.5}


def test_scalars_are_values_of_the_loop_once_whatever_writers_are_behind(
    observed: Observed, metric_writers: Any
) -> None:
    writer = metric_writers.AsyncMultiWriter([metric_writers.LoggingWriter(), metric_writers.LoggingWriter()])
    with StepMark(observed.side.loops, "train", None, None):
        writer.write_scalars(7, {"loss": jnp.float32(0.5), "train/accuracy": 0.25})
    writer.close()
    assert recorded(observed) == {("train", "loss"): 0.5, ("train", "train/accuracy"): 0.25}


def test_a_writer_by_itself_and_values_that_are_written_with_their_types(
    observed: Observed, metric_writers: Any
) -> None:
    writer = metric_writers.AsyncWriter(metric_writers.LoggingWriter())
    metric_writers.write_values(writer, 3, {"loss": 1.5})
    writer.close()
    assert recorded(observed) == {("", "loss"): 1.5}


def test_the_library_writes_as_without(
    observed: Observed, metric_writers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="absl"):
        metric_writers.LoggingWriter().write_scalars(1, {"loss": 2.0})
    assert "[1] loss=2" in caplog.text


def test_what_the_library_refuses_is_refused_as_without_and_not_recorded(
    observed: Observed, metric_writers: Any
) -> None:
    with pytest.raises(TypeError, match="write_scalars"):
        metric_writers.LoggingWriter().write_scalars()
    with pytest.raises(AttributeError) as raised:
        metric_writers.LoggingWriter().write_scalars(1, None)
    assert "wrapping.py" not in [frame.path.name for frame in raised.traceback]
    assert recorded(observed) == {}


def test_after_stop_the_library_is_what_it_was(metric_writers: Any) -> None:
    writers = [getattr(metric_writers, name) for name in ("AsyncWriter", "LoggingWriter", "MultiWriter")]
    before = [dict(vars(writer)) for writer in writers]
    probe = CluProbe()
    probe.start(FakeJob())
    assert all(dict(vars(writer)) != own for writer, own in zip(writers, before, strict=True))
    probe.stop()
    assert [dict(vars(writer)) for writer in writers] == before
