"""Why a job does not answer, as the system tells it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jaxobs.agent.silence import STOPPED, why_silent
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


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"7": "S", "8": "S"}, "its main thread sleeps"),
        ({"7": "R", "8": "S"}, "its main thread runs"),
        ({"7": "S", "8": "R"}, "its main thread sleeps"),
        ({"7": "D", "8": "R"}, "a disk or a network file system"),
    ],
)
def test_the_states_of_its_threads_say_who_holds_the_lock(
    tmp_path: Path, states: dict[str, str], said: str
) -> None:
    for thread, state in states.items():
        (tmp_path / "7" / "task" / thread).mkdir(parents=True)
        (tmp_path / "7" / "task" / thread / "stat").write_text(f"{thread} (a) b) {state} 1 1 1")
    assert said in why_silent("7", tmp_path)
