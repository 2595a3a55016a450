"""The live view in a real terminal (tmux) on a real training: what is on the screen, keys, and another size."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.slow
Job = Any


class Terminal:
    """A terminal of tmux's own server, in which one command runs."""

    def __init__(self, name: str, tmux: str, width: int, height: int, *command: str) -> None:
        self._tmux = [tmux, "-L", name, "-f", os.devnull]
        words = shlex.join([*command]) + "; echo status $?; sleep 600"
        self._do("new-session", "-d", "-x", str(width), "-y", str(height), words)

    def _do(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._tmux, *arguments], capture_output=True, text=True, timeout=20, check=True
        )
        return done.stdout

    def screen(self) -> str:
        return self._do("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        self._do("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._do("resize-window", "-x", str(width), "-y", str(height))

    def wait_for(self, pattern: str, seconds: float = 60.0) -> str:
        """The screen as soon as it shows this."""
        deadline = time.monotonic() + seconds
        while True:
            shown = self.screen()
            if re.search(pattern, shown, re.MULTILINE):
                return shown
            if time.monotonic() > deadline:
                pytest.fail(f"no {pattern!r} within {seconds:g} s:\n{shown}")
            time.sleep(0.2)

    def end(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, timeout=20, check=False)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Runs `jaxobs top` in a terminal of so many columns and lines."""
    tmux = shutil.which("tmux")
    if tmux is None:
        reason = "tmux is not installed: apt install tmux"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason} (nothing that CI can install is skipped there)", pytrace=False)
        pytest.skip(reason)
    begun: list[Terminal] = []

    def one(width: int, height: int, *arguments: str) -> Terminal:
        name = f"jaxobs-top-{os.getpid()}-{len(begun)}"
        begun.append(Terminal(name, tmux, width, height, sys.executable, "-m", "jaxobs", "top", *arguments))
        return begun[-1]

    yield one
    for each in begun:
        each.end()


def test_one_job_with_its_recompile_its_tables_and_its_end(
    train: Callable[[int], Job], terminal: Callable[..., Terminal]
) -> None:
    job = train(1)
    shown = terminal(80, 24, *job.addresses)
    assert "Ranks" not in shown.wait_for(r"train runs at [\d.,]+ steps/s")
    shown.wait_for(r"^│ input +█")
    (job.folder / "rows").write_text("48")
    shown.press("5")
    began = time.monotonic()
    found = shown.wait_for(r"train_step .* shape +batch: float32\[32,12")
    assert time.monotonic() - began < 15, (
        "a compile, a second until it is told, and two until it is asked for"
    )
    assert "Compiled functions" in found
    shown.press("3")
    shown.wait_for(r"^│ +function .* per run")
    shown.press("2")
    shown.wait_for(r"└─+")
    shown.resize(160, 50)
    found = shown.wait_for(r"Roofline")
    found = shown.wait_for(r"^│ +function +executable +runs")
    assert "Where a step goes" in found
    job.end()
    shown.wait_for(r"the job has ended, or its agent is lost: nothing listens at localhost:\d+")
    shown.press("q")
    shown.wait_for(r"^status 0")


def test_four_ranks_of_which_one_lags(train: Callable[[int], Job], terminal: Callable[..., Terminal]) -> None:
    job = train(4)
    (job.folder / "input-2").write_text("0.2")
    shown = terminal(80, 24, str(job.folder / "targets"))
    found = shown.wait_for(r"2 ◀ lags", 100)
    assert [line.split()[1] for line in found.splitlines() if re.match(r"│ [0-3] ", line)] == [
        "0",
        "1",
        "2",
        "3",
    ]
    shown.press("n", "n")
    shown.wait_for(r"rank 2 of 4")
    shown.press("3", "s")  # by function, then by the next column: the executable or how often it ran
    shown.wait_for(r"function ▲")
    shown.press("s")
    shown.wait_for(r"(runs|executable) [▼▲]")
    shown.press("r")
    shown.wait_for(r"(runs|executable) [▼▲]")
    shown.resize(40, 12)
    shown.wait_for(r"rank 2 of 4")
    shown.resize(160, 50)
    shown.wait_for(r"Operations|Executables")
    shown.wait_for(r"◀ lags")
    job.processes[3].kill()
    shown.wait_for(r"3 ✗", 30)
    shown.press("q")
    shown.wait_for(r"^status 0")
