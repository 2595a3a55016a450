"""The probe on real JAX, with a stand-in for the job, and a thread that trains meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.model.events import ProfileWindow
from jaxobs.testing import DEFAULT_SETTINGS, FakeJob
from jaxobs_plugins.probes.profiler import recording
from jaxobs_plugins.probes.profiler.probe import ProfilerProbe
from jaxobs_plugins.probes.profiler.schedule import Pace


@pytest.fixture(autouse=True)
def _malloc_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process other tests have left many small holes in malloc's memory, more than any job has."""
    monkeypatch.setattr(recording, "MAX_LOOK_SECONDS", 1.0)


class Training:
    """Steps of about a millisecond on a thread of their own; `job.steps` counts them."""

    def __init__(self, job: FakeJob) -> None:
        self._job = job
        self._stop = False
        self._step = jax.jit(lambda x: jnp.tanh(x @ x) * 1e-3)
        self._x = jnp.ones((128, 128))
        self._step(self._x).block_until_ready()
        job.compiled = time.monotonic_ns()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop:
            self._step(self._x).block_until_ready()
            self._job.steps += 1
            time.sleep(0.001)

    def stop(self) -> None:
        self._stop = True
        self._thread.join()


class Observed:
    """A started probe and its job."""

    def __init__(self, **settings: Any) -> None:
        self.job = FakeJob({**DEFAULT_SETTINGS, **settings})
        self.probe = ProfilerProbe()
        self.probe.start(self.job)

    def windows(self) -> list[ProfileWindow]:
        return [event for event in self.job.events if isinstance(event, ProfileWindow)]

    def wait_for(self, count: int, seconds: float = 30.0) -> list[ProfileWindow]:
        """Until so many sessions have been told of, and the thread that made them has ended: till then none is begun."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and (len(self.windows()) < count or not self.probe.is_idle()):
            time.sleep(0.005)
        assert len(self.windows()) == count, (self.windows(), self.job.off, self.job.failures)
        return self.windows()

    def ask(self, seconds: float, keep: bool | str = False) -> Any:
        return self.probe.profile(seconds, keep).result(timeout=30)


@pytest.fixture
def observe() -> Iterator[Callable[..., Observed]]:
    made: list[Observed] = []

    def start(**settings: Any) -> Observed:
        made.append(Observed(**settings))
        return made[-1]

    yield start
    for observed in made:
        observed.probe.stop()
        observed.probe.stop()
        assert not observed.job.failures


@pytest.fixture
def observed(observe: Callable[..., Observed]) -> Observed:
    return observe()


@pytest.fixture
def train() -> Iterator[Callable[[Observed], Training]]:
    made: list[Training] = []

    def start(observed: Observed) -> Training:
        made.append(Training(observed.job))
        return made[-1]

    yield start
    for training in made:
        training.stop()


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job has warmed up at once."""
    monkeypatch.setattr(Pace, "is_steady", lambda self: True)
