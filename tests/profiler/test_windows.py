"""Windows of our own, on the JAX that is installed."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest

from jaxobs.plugin.discovery import PROBES, conformance_problem
from jaxobs.plugin.threads import living
from jaxobs.trace import read_trace
from jaxobs_plugins.probes.profiler.probe import ProfilerProbe
from jaxobs_plugins.probes.profiler.schedule import MAX_UNMARKED_SECONDS, MIN_SECONDS, Pace, Window
from tests.profiler.jax_versions import SEES_A_CPU, sees_a_cpu
from tests.waiting import wait_for


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
    assert MIN_SECONDS * 1e9 <= window.end - window.start < (MAX_UNMARKED_SECONDS + 0.5) * 1e9
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


@sees_a_cpu
@pytest.mark.parametrize("name", ["NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH"])
def test_where_another_profiler_has_the_gpu_no_window_is_scheduled(
    observe: Any, train: Any, steady: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    observed = observe()
    train(observed)
    observed.probe.sample()
    assert observed.probe.is_idle()
    assert observed.windows() == []
    (remark,) = observed.probe.check(observed.job.settings)
    assert name in observed.probe.reason == remark.text


def test_windows_are_not_scheduled_where_that_was_switched_off_and_the_source_says_so(
    observe: Any, train: Any, steady: None
) -> None:
    observed, named = observe(profile_budget_ratio=0.0), "JAXOBS_PROFILE_BUDGET_RATIO"
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
    observed = observe(run_folder=str(tmp_path), run_directory=str(tmp_path.parent))
    train(observed)
    result = observed.ask(0.1, True)
    assert (result.outcome, result.reason) == ("read", "")
    assert Path(result.path).relative_to(tmp_path).match("plugins/profile/*/rank_00000.xplane.pb")
    (window,) = observed.windows()
    assert (window.kind, window.path) == ("requested", result.path)
    assert Path(result.path).read_bytes() == window.xspace


@sees_a_cpu
def test_the_next_scheduled_window_is_kept_where_that_is_asked_for_and_no_sooner_than_it_is_paid_for(
    observe: Any, train: Any, steady: None, tmp_path: Path
) -> None:
    observed = observe(run_folder=str(tmp_path), run_directory=str(tmp_path.parent))
    train(observed)
    observed.probe.sample()
    observed.wait_for(1)
    waiting = observed.probe.profile(0.0, True)
    second = observed.probe.profile(0.0, True)  # as two loops slow down at once
    observed.probe.sample()
    assert len(observed.windows()) == 1
    windows = observed.probe._windows
    windows.schedule = dataclasses.replace(windows.schedule, spent=0.0)  # the first one is paid for now
    observed.probe.sample()
    result = waiting.result(timeout=30)
    assert (result.outcome, result.reason) == ("read", "")
    assert second.result(timeout=30) == result
    window = observed.wait_for(2)[-1]
    assert (window.kind, window.path) == ("scheduled", result.path)
    assert Path(result.path).read_bytes() == window.xspace


def test_a_trace_that_cannot_be_kept_says_why(observed: Any, train: Any, tmp_path: Path) -> None:
    train(observed)
    assert "JAXOBS_RUN_DIRECTORY" in observed.ask(0.03, True).reason
    (tmp_path / "file").write_text("")
    for path in ("file", "no\0path"):
        assert "could not be kept" in observed.ask(0.03, str(tmp_path / path)).reason
    assert observed.job.off == ""


@sees_a_cpu
def test_modules_travel_with_the_first_window_after_a_compile_and_with_what_is_kept(
    observed: Any, train: Any, tmp_path: Path
) -> None:
    train(observed)
    for keep in (False, False, str(tmp_path)):
        observed.ask(0.3, keep)  # in which a step ends on a loaded machine too
    observed.job.compiled += 1
    observed.ask(0.3)
    traces = [read_trace(window.xspace) for window in observed.windows()]
    assert [bool(trace.hosts[0].modules) for trace in traces] == [True, False, True, True]


@sees_a_cpu
def test_a_long_window_ends_before_its_trace_becomes_too_large(observed: Any, train: Any) -> None:
    train(observed)
    made = observed.probe._windows
    dense = Window(0.1, 0.0, 0.1, 2**25, 100, None)  # a tenth of a second made as many bytes as there may be
    made.schedule, made._looked_at = made.schedule.learnt(dense), observed.job.compiled
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
    wait_for(lambda: observed.ask(0.05).outcome == "too_large", "a window in which something ran")
    window = observed.windows()[-1]
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
    wait_for(lambda: observed.job.session is not None, "the window")
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
    assert not any(thread.name == "jaxobs-profiler" for thread in living())
    assert observed.ask(0.1).outcome == "failed"
