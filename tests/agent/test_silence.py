"""Why a job does not answer, as the system tells it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jaxobs.agent.silence import why_silent
from jaxobs.derive.loops.hangs import STOPPED
from tests.waiting import wait_for


def test_a_process_that_was_stopped_is_told_from_one_that_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        os.kill(process.pid, signal.SIGSTOP)
        wait_for(lambda: STOPPED in why_silent(str(process.pid)), "the process to be stopped", 60)
    finally:
        process.kill()
        process.wait()
    assert "nothing is known" in why_silent(str(process.pid))
    assert "nothing is known" in why_silent("")


def test_its_other_threads_that_run_are_named(tmp_path: Path) -> None:
    for thread, (name, state) in enumerate([("python", "S"), ("XLA", "R"), ("XLA", "R"), ("io", "S")], 7):
        task = tmp_path / "7" / "task" / str(thread)
        task.mkdir(parents=True)
        (task / "stat").write_text(f"{thread} ({name}) {state} 1 1 1")
        (task / "comm").write_text(f"{name}\n")
    (tmp_path / "7" / "stat").write_text("7 (python) S 1 1 1")
    assert why_silent("7", tmp_path).endswith("; of its other threads 2 run: XLA (2)")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("S", "its main thread sleeps"),
        ("R", "its main thread runs"),
        ("D", "a disk or a network file system"),
    ],
)
def test_the_state_of_its_main_thread_says_who_holds_the_lock(tmp_path: Path, state: str, said: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a) b) {state} 1 1 1")
    assert said in why_silent("7", tmp_path)
