"""A home on a mount that does not answer: the agent goes on, and the last summary is left elsewhere."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxobs.agent import service as module
from jaxobs.agent.service import Service, summary_files
from jaxobs.config import Settings, plain_settings
from jaxobs.flow.job_pipe import JobPipe
from jaxobs.model.clock import ClockAnchor, now
from jaxobs.model.events import BackendFound


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set once something waits for the disk, which answers after the test."""
    asked, answers = threading.Event(), threading.Event()

    def hang(*_: Any, **__: Any) -> None:
        asked.set()
        answers.wait()

    monkeypatch.setattr(module, "DISK_SECONDS", 0.2)
    for name in ("why_not_kept", "leave_summary", "known_peaks"):
        monkeypatch.setattr(module, name, hang)
    yield asked
    answers.set()


def hello() -> dict[str, Any]:
    return {
        "settings": plain_settings(Settings(), rank_on_host=0, in_kubernetes=False),
        "resource": {}, "clock": tuple(ClockAnchor.read()), "began": now(),
    }  # fmt: skip


def test_where_the_disk_of_the_folder_hangs_the_summary_is_told_to_be_in_the_temporary_directory(
    hangs: threading.Event, tmp_path: Path
) -> None:
    settings = {"run_folder": str(tmp_path / "run"), "keep_runs": True}
    assert summary_files(settings, "job") == [Path(tempfile.gettempdir(), "jaxobs-job-killed.txt")]
    assert hangs.is_set()


def test_events_are_folded_while_the_disk_of_the_calibration_hangs(hangs: threading.Event) -> None:
    job, pipe = socket.socketpair()
    backend = BackendFound("cpu", ((0, "cpu", "0"),), 0, 1, "0.10.2", "0.10.2", now())
    service = Service(hello(), JobPipe(pipe))
    folding = threading.Thread(target=service._fold, args=(iter([backend]),), daemon=True)
    folding.start()
    folding.join(60.0)
    assert not folding.is_alive()
    assert hangs.is_set()
    assert service.resource["jax.platform"] == "cpu"
    service._pipe.close()
    pipe.close()
    job.close()


def test_an_agent_whose_job_was_killed_ends_while_the_disk_hangs(hangs: threading.Event) -> None:
    job, pipe = socket.socketpair()
    ending = threading.Thread(target=Service(hello(), JobPipe(pipe))._end, args=(None, "killed"), daemon=True)
    ending.start()
    ending.join(60.0)
    assert not ending.is_alive()
    assert hangs.is_set()
    pipe.close()
    job.close()
