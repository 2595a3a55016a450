"""What a signal handler of the user's raises reaches the user wherever it strikes, and leaves our marks whole."""

from __future__ import annotations

import gc
import logging
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxobs.flow.pipe import WakeUp
from jaxobs.jax_compat import equations
from jaxobs.jax_compat.arrays import memory_ran_out
from jaxobs.model.events import PhaseEnded, PhaseStarted, StepEnded
from jaxobs.plugin.discovery import PROBES, Found
from jaxobs.plugin.files import why_not_writable
from jaxobs.plugin.guard import Suppressed
from jaxobs.plugin.log import warn
from jaxobs.probe import side
from jaxobs.probe.import_hook import when_imported
from jaxobs.probe.out_of_memory import reporter
from jaxobs.probe.steps import marks
from jaxobs.probe.steps.iteration import Steps
from jaxobs.probe.steps.marks import PhaseMark, StepMark
from jaxobs.probe.steps.values import amount, as_name, plain_amount
from jaxobs.probe.watch import completions
from jaxobs.probe.watch.watchable import is_jitted
from jaxobs_plugins.probes.profiler.user_sessions import Sessions, watch_sessions
from tests.probe.signals_at_any_moment import AlarmError, each_moment

pytestmark = pytest.mark.timeout(method="thread")  # the alarm is these tests' own


@pytest.fixture(autouse=True, scope="module")
def tracer() -> Iterator[None]:
    """Whoever traces this thread, to measure which lines are reached, does so again after these tests."""
    before = sys.gettrace()
    yield
    sys.settrace(before)


@pytest.fixture(autouse=True)
def handler() -> Iterator[list[int]]:
    """Raises AlarmError at SIGALRM; the list holds a number for each time."""
    calls: list[int] = []

    def rings(number: int, frame: FrameType | None) -> None:
        # One that was set again, as this one came, would ring on the way to the test's `except`. One that rings in this
        # call is noted, and ends this handler.
        signal.setitimer(signal.ITIMER_REAL, 0)
        calls.append(number)
        raise AlarmError

    before = signal.signal(signal.SIGALRM, rings)
    yield calls
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


class Jitted:
    """Stands for a function of `jax.jit` that compiles for every new shape, and takes no time."""

    __module__ = "jaxlib"
    __name__ = "model"

    def __init__(self, observed: Any) -> None:
        self._executables = observed.side.executables
        self.made: dict[tuple[int, ...], int] = {}

    def __call__(self, array: np.ndarray) -> np.ndarray:
        if array.shape not in self.made:
            number = self._executables.number()
            self._executables.created("model", number)
            self.made[array.shape] = number
        return array

    def lower(self) -> None: ...

    def _cache_size(self) -> int:
        return len(self.made)


@pytest.mark.slow
def test_in_steps_phases_and_watched_calls(observed: Any, handler: list[int]) -> None:
    loops = observed.side.loops

    def prepare() -> Callable[[], None]:
        jitted = Jitted(observed)
        watched = observed.side.watching.watch(jitted)

        def run() -> None:
            for item in Steps(loops, [2, 3, 2], "train", lambda item: item, None):
                watched(np.ones(item))
            with StepMark(loops, "other", 1.0, None), PhaseMark(loops, "checkpoint"):
                watched(np.ones(3))

        return run

    struck = 0
    for _ in each_moment(prepare):
        struck += 1
        assert (loops.current.step, loops.current.phase) == (None, None)
    assert struck == len(handler) > 100
    observed.side.completions.stop()  # comes back: no lock stayed taken
    assert {phase.time for phase in observed.of(PhaseStarted)} <= {
        phase.start for phase in observed.of(PhaseEnded)
    }


def test_what_a_call_ran_is_then_known_or_not_but_never_wrong(observed: Any) -> None:
    jitted, watched = None, None

    def prepare() -> Callable[[], None]:
        nonlocal jitted, watched
        jitted = Jitted(observed)
        watched = observed.side.watching.watch(jitted)
        watched(np.ones(2))
        return lambda: watched(np.ones(3))

    for _ in each_moment(prepare):
        observed.side.ring.drain()
        assert jitted is not None
        assert watched is not None
        sizes = (2, 3, 2)
        for size in sizes:
            with StepMark(observed.side.loops, "train", None, None):
                watched(np.ones(size))
        observed.events.clear()
        ran = [step.runs for step in observed.of(StepEnded)]
        assert len(ran) == len(sizes)
        for size, (run,) in zip(sizes, ran, strict=True):
            assert run in (jitted.made[size,], watched._jaxobs_calls.number)


def test_in_a_storm_of_signals_every_one_is_heard_and_later_steps_are_as_ever(
    observed: Any, handler: list[int]
) -> None:
    model = jax.jit(lambda x: x + 1)
    watched = observed.side.watching.watch(model)
    inputs = [jnp.ones(2), jnp.ones(3)]
    for given in inputs:
        watched(given)
    loops, heard, delays = observed.side.loops, 0, random.Random(0)
    gc.collect()
    gc.disable()  # what comes during a pass is lost in JAX's own callback of it, with or without us
    while len(handler) < 300:
        try:
            while True:
                signal.setitimer(signal.ITIMER_REAL, delays.uniform(1e-6, 8e-5))
                for given in Steps(loops, inputs, "train", len, None):
                    watched(given)
                with StepMark(loops, "train", 1.0, None), PhaseMark(loops, "evaluation"):
                    watched(inputs[0])
        except AlarmError:
            heard += 1
    gc.enable()
    assert heard == len(handler)
    assert loops.current.around() is None
    observed.of()
    observed.events.clear()
    for given in Steps(loops, inputs * 10, "train", len, None):
        watched(given)
    steps = observed.of(StepEnded)
    assert len(steps) == 20
    assert [step.runs for step in steps] == [step.runs for step in steps[:2]] * 10
    assert not any(step.failed for step in steps)


def test_where_a_profiler_session_begins_and_is_dropped(handler: list[int]) -> None:
    class Session:
        """As JAX's, of which one takes milliseconds."""

    under_way: set[int] = set()
    module = SimpleNamespace(ProfilerSession=Session)
    sessions = Sessions(under_way.add, under_way.discard, lambda _: None)
    watch_sessions(module, sessions)

    def run() -> None:
        for _ in range(3):
            module.ProfilerSession()  # and let go of at once
        sessions.end_dropped()

    struck = 0
    for _ in each_moment(lambda: run):
        struck += 1
        sessions.end_dropped()
        assert under_way == set()
    assert struck == len(handler) > 3


def test_where_the_senders_thread_is_woken(handler: list[int]) -> None:
    wake_up = WakeUp()
    struck = sum(1 for _ in each_moment(lambda: wake_up.ring))
    wake_up.close()
    assert struck == len(handler) > 3


def rings(*_: object, **__: object) -> Any:
    """Called in the place of something that takes time."""
    signal.raise_signal(signal.SIGALRM)


class Rings:
    """An object of the user's during whose methods the signal comes."""

    __str__ = __float__ = rings

    def __getattr__(self, name: str) -> Any:
        rings()


class RingsAsItFails(SimpleNamespace):
    """An array that is asked for its error."""

    def __init__(self) -> None:
        super().__init__(is_deleted=lambda: False, is_ready=lambda: True, block_until_ready=rings)


class RingsInTheLog(logging.Handler):
    emit = rings


def _warns() -> None:
    logging.getLogger("jaxobs").addHandler(ringing := RingsInTheLog())
    try:
        warn("something")
    finally:
        logging.getLogger("jaxobs").removeHandler(ringing)


def _loads_a_plugin() -> None:
    Found(PROBES, "example", f"{__name__}:rings", "jaxobs 0").load()


def _waits_for_a_profile() -> None:
    sources = SimpleNamespace(begin_profile=lambda *_: SimpleNamespace(result=rings))
    side.ProbeSide.profile(SimpleNamespace(sources=sources), 1.0, False)  # type: ignore[arg-type]


def _looks_for_a_backend() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side, "find_backend", rings)
        side.ProbeSide._look_for_backend(SimpleNamespace(_backend=None))  # type: ignore[arg-type]


def _looks_for_a_nan() -> None:
    def body(x: Any, _: Any) -> Any:
        return jnp.log(x - 1), None

    loop = jax.make_jaxpr(lambda x: jax.lax.scan(body, x, None, length=2)[0])(1.0)
    evaluation = equations.Evaluation(60.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equations, "monotonic", rings)
        evaluation.outputs(loop, [1.0])


def _tries_a_directory() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", rings)
        why_not_writable(Path.cwd())


@pytest.mark.parametrize(
    "run",
    [
        lambda: amount(rings, 1),
        lambda: as_name(Rings()),
        lambda: plain_amount(Rings()),
        lambda: is_jitted(Rings()),
        _warns,
        _loads_a_plugin,
        _waits_for_a_profile,
        _looks_for_a_backend,
        _looks_for_a_nan,
        _tries_a_directory,
        lambda: when_imported("json", rings),
        lambda: memory_ran_out(RingsAsItFails()),
    ],
    ids=[
        "amount",
        "name",
        "number",
        "watch",
        "log",
        "plugin",
        "profile",
        "backend",
        "nan",
        "directory",
        "import",
        "array",
    ],
)
def test_where_code_of_others_is_called(run: Callable[[], object]) -> None:
    with pytest.raises(AlarmError):
        run()


class PreemptedError(RuntimeError):
    """Of a kind that Python raises for a thread that cannot be started, and JAX for a deleted array."""


def preempted(number: int, frame: FrameType | None) -> None:
    raise PreemptedError


def test_what_it_raises_is_not_taken_for_a_thread_that_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal.signal(signal.SIGALRM, preempted)
    monkeypatch.setattr(reporter, "Thread", lambda *_, **__: SimpleNamespace(join=rings))
    with pytest.raises(PreemptedError):
        reporter.write_report({"run_folder": str(tmp_path)}, "", {}, 0.0)


def test_what_it_raises_at_the_end_of_a_turn_is_not_taken_for_a_deleted_array(
    observed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal.signal(signal.SIGALRM, preempted)
    watched = observed.side.watching.watch(jax.jit(lambda x: x + 1))
    watched(jnp.ones(3))
    steps = iter(Steps(observed.side.loops, range(3), "train", None, None))
    next(steps)
    monkeypatch.setattr(completions, "is_ready", lambda array: False)
    watched(jnp.ones(3))
    monkeypatch.setattr(completions, "is_ready", rings)
    with pytest.raises(PreemptedError):
        next(steps)


def test_all_else_is_suppressed() -> None:
    with Suppressed(OSError):
        raise FileNotFoundError
    with pytest.raises(ValueError, match="other"), Suppressed(OSError):
        raise ValueError("other")
    with pytest.raises(KeyboardInterrupt), Suppressed(Exception):
        raise KeyboardInterrupt


def test_a_step_whose_end_python_did_not_come_to_is_around_nothing_that_follows(observed: Any) -> None:
    loops = observed.side.loops
    left = StepMark(loops, "train", None, None)
    left.__enter__()
    with StepMark(loops, "inner", None, None):
        pass
    assert loops.current.step is loops.current.around() is left._step
    del left  # as the `with` does whose `__exit__` did not begin
    for _ in Steps(loops, [1], "train", None, None):
        pass
    assert loops.current.step is None


def test_a_phase_that_is_interrupted_as_it_ends_is_still_within_its_step(
    observed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops, told = observed.side.loops, []

    def interrupted_once(*fields: Any) -> PhaseEnded:
        told.append(PhaseEnded(*fields))
        if len(told) == 1:
            raise AlarmError
        return told[-1]

    monkeypatch.setattr(marks, "PhaseEnded", interrupted_once)
    step = StepMark(loops, "train", None, None)
    with pytest.raises(AlarmError), step, PhaseMark(loops, "evaluation"):
        pass
    assert [event.inside for event in told] == ["train", "train"]
