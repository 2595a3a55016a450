"""The user's own sessions, before, during and after ours: theirs is whole, nothing raises, and it is read too."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import jax
import pytest

from jaxobs.jax_compat.runtime import profiler_module
from jaxobs.trace import read_trace
from jaxobs_plugins.probes.profiler import recording, windows

takes_into_memory = pytest.mark.skipif(
    not hasattr(jax.profiler, "ProfileSession"), reason="sessions of this JAX write their traces themselves"
)


def traces(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.xplane.pb"))


def is_whole(path: Path) -> bool:
    read_trace(path.read_bytes())  # raises TraceError where it is not
    return path.stat().st_size > 0


def test_a_session_of_the_users_is_told_of_and_read(observed: Any, train: Any, tmp_path: Path) -> None:
    train(observed)
    with jax.profiler.trace(tmp_path):
        assert observed.job.session is not None
        time.sleep(0.05)
    assert observed.job.session is None
    (window,) = observed.wait_for(1)
    (path,) = traces(tmp_path)
    assert is_whole(path)
    assert (window.kind, window.outcome, window.path, window.reason) == ("user", "read", str(path), "")
    assert window.xspace == path.read_bytes()
    assert window.end - window.start >= 0.05e9


def test_a_trace_of_another_host_in_the_same_directory_is_not_taken_for_the_users(
    observed: Any, train: Any, tmp_path: Path
) -> None:
    train(observed)
    with jax.profiler.trace(tmp_path):
        other = tmp_path / "plugins" / "profile" / "run" / "another-host.xplane.pb"
        other.parent.mkdir(parents=True)
        other.write_bytes(b"")
        os.utime(other, (time.time() + 60, time.time() + 60))
    (window,) = observed.wait_for(1)
    (own,) = set(traces(tmp_path)) - {other}
    assert (window.outcome, window.path) == ("read", str(own))


def test_ours_gives_way_to_the_users(observed: Any, train: Any, tmp_path: Path) -> None:
    train(observed)
    answer = observed.probe.profile(0.2, False)
    time.sleep(0.05)
    jax.profiler.start_trace(tmp_path)
    time.sleep(0.05)
    jax.profiler.stop_trace()
    assert answer.result(timeout=30).outcome == "user_session"
    (path,) = traces(tmp_path)
    assert is_whole(path)
    ours, theirs = observed.wait_for(2)
    assert (ours.kind, ours.xspace) == ("requested", None)
    assert (theirs.kind, theirs.outcome) == ("user", "read")
    assert ours.end <= theirs.start


def test_who_comes_while_the_rate_of_events_is_learnt_waits_for_no_other_session(
    observed: Any, train: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(observed)
    session_lock, record, looks = observed.probe._session_lock, recording.record, []

    def interrupted(*arguments: Any, **options: Any) -> Any:
        looks.append(threading.Thread(target=session_lock.user_comes, args=(1, 30.0)))
        looks[-1].start()
        return record(*arguments, **options)

    monkeypatch.setattr(windows, "record", interrupted)
    assert observed.ask(0.5).outcome == "user_session"
    assert len(looks) == 1
    looks[0].join()
    session_lock.user_goes(1)
    monkeypatch.undo()
    assert observed.ask(0.05).outcome in ("read", "empty")


def test_ours_is_skipped_while_the_users_is_there_and_made_after_it(
    observed: Any, train: Any, tmp_path: Path
) -> None:
    train(observed)
    with jax.profiler.trace(tmp_path):
        assert observed.ask(0.05).outcome == "user_session"
        time.sleep(0.05)
    (path,) = traces(tmp_path)
    assert is_whole(path)
    assert observed.ask(0.05).outcome in ("read", "empty")
    jax.profiler.start_trace(tmp_path / "again")
    jax.profiler.stop_trace()
    assert len(traces(tmp_path / "again")) == 1


def test_many_in_turn_leave_nothing_behind(observed: Any, train: Any, tmp_path: Path) -> None:
    train(observed)
    for turn in range(5):
        answer = observed.probe.profile(0.05, False)
        time.sleep(0.01 * turn)
        with jax.profiler.trace(tmp_path / str(turn)):
            time.sleep(0.01)
        answer.result(timeout=30)
    assert all(is_whole(path) for path in traces(tmp_path))
    assert len(traces(tmp_path)) == 5
    observed.wait_for(10)
    assert observed.ask(0.03).outcome in ("read", "empty")


def test_the_users_mistakes_stay_theirs(observed: Any, train: Any, tmp_path: Path) -> None:
    train(observed)
    with pytest.raises(RuntimeError, match="No profile started"):
        jax.profiler.stop_trace()
    with jax.profiler.trace(tmp_path), pytest.raises(RuntimeError, match="already been started"):
        jax.profiler.start_trace(tmp_path)
    session_type = profiler_module().ProfilerSession
    with pytest.raises(TypeError):
        session_type("no options")
    assert observed.ask(0.03).outcome in ("read", "empty")


def test_ctrl_c_while_the_users_session_waits_for_ours_leaves_nothing_behind(
    observed: Any, train: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(observed)
    session_lock = observed.probe._session_lock
    comes = session_lock.user_comes

    def interrupted(session: int, patience: float) -> None:
        comes(session, patience)
        raise KeyboardInterrupt

    monkeypatch.setattr(session_lock, "user_comes", interrupted)
    module = profiler_module()
    with pytest.raises(KeyboardInterrupt):
        module.ProfilerSession(module.ProfileOptions())
    assert observed.job.session is None
    assert observed.ask(0.03).outcome in ("read", "empty")


def test_a_session_made_by_hand_is_one_for_isinstance_and_its_bytes_are_read(
    observed: Any, train: Any
) -> None:
    train(observed)
    module = profiler_module()
    session = module.ProfilerSession(module.ProfileOptions())
    time.sleep(0.03)
    assert isinstance(session, module.ProfilerSession)
    assert isinstance(session, observed.probe._windows._session_type)
    assert type(session).__name__ == "ProfilerSession"
    xspace = session.stop()
    (window,) = observed.wait_for(1)
    assert (window.kind, window.outcome, window.xspace) == ("user", "read", xspace)


@takes_into_memory
def test_a_trace_that_stays_in_memory_is_the_users_alone(observed: Any, train: Any, tmp_path: Path) -> None:
    train(observed)
    with vars(jax.profiler)["ProfileSession"]() as session:  # older versions have no type for it
        time.sleep(0.01)
    assert list(session.profile_data.planes)
    (window,) = observed.wait_for(1)
    assert (window.kind, window.outcome, window.xspace) == ("user", "failed", None)
    assert "neither written to a directory nor returned" in window.reason
    session.export_profile_data(tmp_path)  # whenever they like, if at all
    assert len(traces(tmp_path)) == 1
    assert observed.ask(0.03).outcome in ("read", "empty")
    assert [window.kind for window in observed.windows()] == ["user", "requested"]


@takes_into_memory
def test_a_trace_that_cannot_be_written_is_an_error_of_the_users_and_told_of(
    observed: Any, train: Any, tmp_path: Path
) -> None:
    train(observed)
    (tmp_path / "file").touch()
    with pytest.raises(Exception, match="file"), jax.profiler.trace(tmp_path / "file" / "below"):
        time.sleep(0.01)
    (window,) = observed.wait_for(1)
    assert (window.outcome, window.xspace) == ("failed", None)
    assert observed.ask(0.03).outcome in ("read", "empty")


def test_a_session_that_is_dropped_is_over(observed: Any, train: Any) -> None:
    train(observed)
    module = profiler_module()
    session = module.ProfilerSession(module.ProfileOptions())
    assert observed.ask(0.03).outcome == "user_session"
    del session
    assert observed.ask(0.03).outcome in ("read", "empty")


def test_a_trace_of_the_users_that_is_too_large_is_left_to_them(
    observe: Any, train: Any, tmp_path: Path
) -> None:
    observed = observe(profile_maximum_bytes=100)
    train(observed)
    with jax.profiler.trace(tmp_path):
        time.sleep(0.01)
    (window,) = observed.wait_for(1)
    assert (window.outcome, window.xspace) == ("too_large", None)
    assert len(traces(tmp_path)) == 1


def test_after_the_end_sessions_are_jaxs_own_again(observed: Any, train: Any, tmp_path: Path) -> None:
    module = profiler_module()
    hooked, original = module.ProfilerSession, observed.probe._windows._session_type
    assert hooked is not original
    jax.profiler.start_trace(tmp_path)
    observed.probe.stop()
    assert module.ProfilerSession is original
    jax.profiler.stop_trace()  # one that began before is whole nevertheless
    (path,) = traces(tmp_path)
    assert is_whole(path)
    assert observed.windows() == []
