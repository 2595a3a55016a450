"""Windows of our own, on the JAX that is installed."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from jaxobs.jax_compat.backend import jaxlib_version
from jaxobs.jax_compat.profiler import profiler_module
from jaxobs.model.profile import OUTCOMES
from jaxobs.plugin.discovery import PROBES, conformance_problem
from jaxobs.trace import read_trace
from jaxobs_plugins.probes.profiler import ProfilerProbe, looking, probe, recording, windows
from jaxobs_plugins.probes.profiler.pace import Pace
from jaxobs_plugins.probes.profiler.schedule import Window
from jaxobs_plugins.probes.profiler.scheduling import FIRST_SCHEDULED

SEES_A_CPU = jaxlib_version() >= FIRST_SCHEDULED
sees_a_cpu = pytest.mark.skipif(not SEES_A_CPU, reason="this JAX records no operations of a CPU")


def looked(observed: Any, monkeypatch: pytest.MonkeyPatch) -> list[looking.Look]:
    """What it records from here on."""
    looks: list[looking.Look] = []
    made = observed.probe._windows._looking
    look = made.look

    def noted(*args: Any, **kwargs: Any) -> looking.Look:
        looks.append(look(*args, **kwargs))
        return looks[-1]

    monkeypatch.setattr(made, "look", noted)
    return looks


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job has warmed up at once."""
    monkeypatch.setattr(Pace, "is_steady", lambda self: True)


def test_it_keeps_the_contract() -> None:
    assert conformance_problem(PROBES, ProfilerProbe()) == ""
    ProfilerProbe().stop()


@sees_a_cpu
def test_where_windows_are_scheduled_there_is_nothing_to_say(observed: Any) -> None:
    assert observed.probe.reason == ""
    assert list(observed.probe.check(observed.job.settings)) == []


@sees_a_cpu
def test_the_first_window_comes_when_the_loop_is_steady_and_holds_its_operations(
    observed: Any, train: Any, steady: None
) -> None:
    train(observed)
    observed.probe.sample()
    (window,) = observed.wait_for(1)
    assert (window.kind, window.outcome, window.path, window.reason) == ("scheduled", "read", "", "")
    assert 0.03e9 <= window.end - window.start < 1e9
    assert window.cost > 0
    (device,) = read_trace(window.xspace).devices
    assert {module.name for module in device.modules} == {"jit__lambda"}


@sees_a_cpu
def test_no_window_before_the_loop_is_steady_and_none_before_the_last_is_paid_for(
    observed: Any, train: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(observed)
    observed.probe.sample()
    monkeypatch.setattr(Pace, "is_steady", lambda self: True)
    observed.probe.sample()
    observed.wait_for(1)
    for _ in range(5):
        observed.probe.sample()
        time.sleep(0.02)
    assert len(observed.windows()) == 1


@sees_a_cpu
@pytest.mark.parametrize("what", ["a compile", "another agent"])
def test_after_a_compile_or_with_another_agent_the_next_window_comes_without_a_pause(
    observe: Any, train: Any, steady: None, what: str
) -> None:
    observed = observe(profile_budget_ratio=0.1)
    train(observed)
    observed.probe.sample()
    observed.wait_for(1)
    made = observed.probe._windows
    made.schedule = dataclasses.replace(made.schedule, began=made.schedule.began - 1000.0)  # all is paid for
    assert made.due(observed.job.progress()) > time.monotonic() + 5.0
    if what == "a compile":
        observed.job.compiled += 1
    else:
        observed.job.agents += 1
    observed.probe.sample()
    _, window = observed.wait_for(2)
    assert read_trace(window.xspace).hosts[0].modules
    assert made.due(observed.job.progress()) > time.monotonic() + 5.0


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"profile_budget_ratio": 0.0}, "JAXOBS_PROFILE_BUDGET_RATIO"), ({"agent": "inline"}, "JAXOBS_AGENT")],
)
def test_windows_are_not_scheduled_where_that_was_switched_off_and_the_source_says_so(
    observe: Any, train: Any, steady: None, settings: dict[str, Any], named: str
) -> None:
    observed = observe(**settings)
    assert named in observed.probe.reason
    (remark,) = observed.probe.check(observed.job.settings)
    assert named in remark.text
    assert not remark.problem
    train(observed)
    for _ in range(3):
        observed.probe.sample()
        time.sleep(0.05)
    assert observed.windows() == []


@pytest.mark.skipif(SEES_A_CPU, reason="this JAX is fit for windows")
def test_windows_are_not_scheduled_on_a_jax_that_would_show_it(
    observed: Any, train: Any, steady: None
) -> None:
    train(observed)
    observed.probe.sample()
    time.sleep(0.2)
    assert observed.windows() == []
    assert "from 0.8.2 on" in observed.probe.reason
    assert [remark.text for remark in observed.probe.check(observed.job.settings)] == [observed.probe.reason]


@sees_a_cpu
def test_a_window_that_is_asked_for_is_made_and_kept_where_xprof_looks(
    observe: Any, train: Any, tmp_path: Path
) -> None:
    observed = observe(profile_directory=str(tmp_path))
    train(observed)
    result = observed.ask(0.1, True)
    assert (result.outcome, result.reason) == ("read", "")
    assert Path(result.path).relative_to(tmp_path).match("plugins/profile/*/rank_00000.xplane.pb")
    (window,) = observed.windows()
    assert (window.kind, window.path) == ("requested", result.path)
    assert Path(result.path).read_bytes() == window.xspace


def test_a_trace_that_cannot_be_kept_says_why(observed: Any, train: Any, tmp_path: Path) -> None:
    train(observed)
    assert "JAXOBS_PROFILE_DIRECTORY" in observed.ask(0.03, True).reason
    (tmp_path / "file").write_text("")
    assert "could not be kept" in observed.ask(0.03, str(tmp_path / "file")).reason


@sees_a_cpu
def test_modules_travel_with_the_first_window_after_a_compile_and_with_what_is_kept(
    observed: Any, train: Any, tmp_path: Path
) -> None:
    train(observed)
    for keep in (False, False, str(tmp_path)):
        observed.ask(0.05, keep)
    observed.job.compiled += 1
    observed.ask(0.05)
    traces = [read_trace(window.xspace) for window in observed.windows()]
    assert [bool(trace.hosts[0].modules) for trace in traces] == [True, False, True, True]


@sees_a_cpu
def test_glimpses_come_before_the_first_window_and_are_not_told_but_charged(
    observed: Any, train: Any, steady: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(observed)
    looks = looked(observed, monkeypatch)
    observed.probe.sample()
    (window,) = observed.wait_for(1)
    *glimpses, whole = looks
    lengths = [look.recorded.end - look.recorded.start for look in glimpses]
    assert len(lengths) == len(looking.GLIMPSES)
    assert all(
        seconds * 1e9 <= length < seconds * 1e9 + 0.5e9
        for seconds, length in zip(looking.GLIMPSES, lengths, strict=True)
    )
    assert (window.start, window.end) == (whole.recorded.start, whole.recorded.end)
    stops = sum(look.recorded.stopped - look.recorded.end for look in looks)
    assert window.cost > stops
    assert observed.probe._windows.schedule.spent == pytest.approx(window.cost / 1e9)
    observed.ask(0.05)
    assert len(looks) == len(looking.GLIMPSES) + 2  # it is known now


@sees_a_cpu
def test_a_long_window_ends_before_its_trace_becomes_too_large(observed: Any, train: Any) -> None:
    train(observed)
    made = observed.probe._windows
    dense = Window(0.1, 0.0, 0.1, 2**25, 100, None)  # a tenth of a second made as many bytes as there may be
    made.schedule = made.schedule.learnt(dense, time.monotonic())
    result = observed.ask(30.0)
    assert result.outcome == "cut"
    assert "lest" in result.reason
    (window,) = observed.windows()
    assert window.end - window.start < 1e9
    assert len(window.xspace) > 0


@sees_a_cpu
def test_a_trace_that_is_too_large_is_not_sent(observe: Any, train: Any) -> None:
    observed = observe(profile_maximum_bytes=1_000)
    train(observed)
    assert observed.ask(0.05).outcome == "too_large"
    (window,) = observed.windows()
    assert window.xspace is None
    assert "JAXOBS_PROFILE_MAXIMUM_BYTES" in window.reason


def test_a_window_of_an_idle_job_is_empty(observed: Any) -> None:
    import jax

    jax.local_devices()
    assert observed.ask(0.03).outcome == "empty"
    assert observed.windows()[0].xspace is None


def test_steps_are_annotated_while_a_window_records(observed: Any, train: Any) -> None:
    train(observed)
    assert observed.job.session is None
    answer = observed.probe.profile(0.2, False)
    deadline = time.monotonic() + 10
    while observed.job.session is None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert observed.job.session is not None
    answer.result(timeout=30)
    assert observed.job.session is None


def test_the_end_of_the_observer_ends_a_window_at_once(observed: Any, train: Any) -> None:
    train(observed)
    answer = observed.probe.profile(0.2, False)
    waiting = observed.probe.profile(50.0, False)
    time.sleep(0.05)
    began = time.monotonic()
    observed.probe.stop()
    assert time.monotonic() - began < 5
    assert answer.result(timeout=0).outcome == "failed"
    assert waiting.result(timeout=0).reason == "the observer has ended"
    assert not any(thread.name == "jaxobs-profiler" for thread in threading.enumerate())
    assert observed.ask(0.1).outcome == "failed"


@sees_a_cpu
def test_a_window_that_is_due_while_the_user_has_a_session_is_skipped_and_counted_once(
    observed: Any, train: Any, steady: None
) -> None:
    train(observed)
    module = profiler_module()
    session = module.ProfilerSession(module.ProfileOptions())
    observed.probe.sample()
    (skipped,) = observed.wait_for(1)
    assert (skipped.kind, skipped.outcome, skipped.cost) == ("scheduled", "user_session", 0)
    observed.probe.sample()
    assert len(session.stop()) > 0
    assert [window.kind for window in observed.wait_for(2)] == ["scheduled", "user"]


def test_a_fault_of_the_profiler_is_its_last(
    observed: Any, train: Any, steady: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUPTI_ERROR_INVALID_PARAMETER")

    train(observed)
    original = observed.probe._windows._looking._session_type
    monkeypatch.setattr(looking, "record", broken)
    assert observed.ask(0.1).reason == "RuntimeError: CUPTI_ERROR_INVALID_PARAMETER"
    deadline = time.monotonic() + 10
    while not observed.job.off and time.monotonic() < deadline:
        time.sleep(0.005)
    assert observed.job.off == "RuntimeError: CUPTI_ERROR_INVALID_PARAMETER"
    assert [window.outcome for window in observed.windows()] == ["failed"]
    assert profiler_module().ProfilerSession is original
    observed.probe.sample()
    assert observed.ask(0.1).outcome == "failed"
    assert len(observed.windows()) == 1


@sees_a_cpu
def test_a_stop_that_takes_too_long_is_a_fault_too(
    observed: Any, train: Any, steady: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(observed)
    monkeypatch.setattr(windows, "STOP_PATIENCE", 0.0)
    observed.probe.sample()
    (window,) = observed.wait_for(1)
    assert window.outcome == "read"
    deadline = time.monotonic() + 10
    while not observed.job.off and time.monotonic() < deadline:
        time.sleep(0.005)
    assert "stop() of a window" in observed.job.off


def test_a_session_that_cannot_be_seen_goes_first(observed: Any, train: Any) -> None:
    train(observed)
    module = profiler_module()
    hidden = observed.probe._windows._looking._session_type(
        module.ProfileOptions()
    )  # as a remote capture makes one
    result = observed.ask(0.03)
    assert result.outcome == "user_session"
    assert "somebody else" in result.reason
    assert len(hidden.stop()) > 0
    assert observed.job.off == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:.*fork.*:DeprecationWarning")
def test_in_a_forked_child_nothing_is_hooked_and_no_thread_is_missed(observed: Any, train: Any) -> None:
    train(observed)
    observed.ask(0.03)
    original = observed.probe._windows._looking._session_type
    child = os.fork()
    if child == 0:
        unhooked = profiler_module().ProfilerSession is original
        os._exit(0 if unhooked and observed.probe.profile(0.1, False).done() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert observed.ask(0.03).outcome in OUTCOMES
    assert profiler_module().ProfilerSession is not original


def test_without_jaxs_profiler_the_source_is_down_and_says_so(
    observe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "profiler_module", lambda: None)
    observed = observe()
    assert "no profiler" in observed.job.off
    observed.probe.sample()
    assert observed.ask(0.1).outcome == "failed"


def test_a_small_trace_without_operations_is_known_to_be_empty() -> None:
    assert recording.is_empty(b"/host:CPU")
    assert not recording.is_empty(b"...hlo_op...")
    assert not recording.is_empty(bytes(2 * recording.SMALL))
