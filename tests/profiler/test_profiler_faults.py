"""Sessions of others, and a profiler that fails or is not there."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import jax
import pytest

from jaxobs.jax_compat.runtime import profiler_module
from jaxobs.model.profile import OUTCOMES
from jaxobs_plugins.probes.profiler import probe, recording, windows
from tests.profiler.jax_versions import sees_a_cpu
from tests.waiting import wait_for


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
    original = observed.probe._windows._session_type
    monkeypatch.setattr(windows, "record", broken)
    assert observed.ask(0.1).reason == "RuntimeError: CUPTI_ERROR_INVALID_PARAMETER"
    wait_for(lambda: observed.job.off, "the probe to be switched off")
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
    wait_for(lambda: observed.job.off, "the probe to be switched off")
    assert "stop() of a window" in observed.job.off


def test_a_session_that_cannot_be_seen_goes_first(observed: Any, train: Any) -> None:
    train(observed)
    module = profiler_module()
    hidden = observed.probe._windows._session_type(module.ProfileOptions())  # as a remote capture makes one
    result = observed.ask(0.03)
    assert result.outcome == "user_session"
    assert "somebody else" in result.reason
    assert len(hidden.stop()) > 0
    assert observed.job.off == ""


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_sessions_of_its_own_as_without_us(
    observed: Any, train: Any, tmp_path: Path
) -> None:
    train(observed).stop()
    observed.ask(0.03)
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with observed.probe._session_lock._lock:
            held.set()
            over.wait()

    holder = threading.Thread(target=hold)  # the child lacks it, and not the lock that it has
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        whole = False
        try:
            observed.job._guard.close()  # as `Sources.forget_in_child` does
            with jax.profiler.trace(tmp_path):
                pass
            whole = bool(list(tmp_path.rglob("*.xplane.pb"))) and observed.job.session is None
        finally:
            os._exit(not whole)
    assert os.waitpid(child, 0)[1] == 0
    over.set()
    holder.join()
    assert observed.ask(0.03).outcome in OUTCOMES


def test_without_jaxs_profiler_the_source_is_down_and_says_so(
    observe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "profiler_module", lambda: None)
    observed = observe()
    assert "no profiler" in observed.job.off
    observed.probe.sample()
    assert observed.ask(0.1).outcome == "failed"


def _plane(name: bytes, content: bytes | None) -> bytes:
    """A plane of a trace: its number, its name, and a line of these bytes, or none."""
    inner = b"".join((b"\x08\x02\x12", _varint(len(name)), name))
    if content is not None:
        inner += b"\x1a" + _varint(len(content)) + content
    return b"\n" + _varint(len(inner)) + inner


def _varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _varint(value >> 7)


def test_a_trace_without_operations_is_known_to_be_empty_however_large_its_modules() -> None:
    modules = _plane(b"/host:metadata", bytes(2 * recording.SMALL) + b"hlo_op")
    assert recording.is_empty(b"")
    assert recording.is_empty(modules + _plane(b"/host:CPU", b"a step"))
    assert not recording.is_empty(modules + _plane(b"/host:CPU", b"hlo_op"))
    assert not recording.is_empty(_plane(b"/device:GPU:0", b"") + modules)
    assert recording.is_empty(_plane(b"/device:GPU:0", None) + modules)  # each GPU has one
    assert not recording.is_empty(_plane(b"/host:CPU", bytes(2 * recording.SMALL)))
    assert not recording.is_empty(b"a trace cut off")
