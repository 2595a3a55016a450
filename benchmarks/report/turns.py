"""Things that take turns within this process, and processes that wait to be asked."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from benchmarks.beside import without_settings

Name = TypeVar("Name", bound=Hashable)
Found = TypeVar("Found")


def take_turns(timed: Mapping[Name, Callable[[], Found]], rounds: int) -> dict[Name, list[Found]]:
    """What each said in each round; every round has another order."""
    chance = random.Random(0)
    found: dict[Name, list[Found]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name in chance.sample(list(timed), len(timed)):
            found[name].append(timed[name]())
    return found


class Asked:
    """A process that says JSON, a value a line, and goes on at each line it is sent. Other lines are overheard."""

    def __init__(self, module: str, *arguments: str, **environment: str) -> None:
        self._folder = tempfile.TemporaryDirectory(
            ignore_cleanup_errors=True  # an agent may be writing what is left of a job that was killed
        )
        everything = without_settings("WANDB_", "MLFLOW_")
        everything |= {"JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0", "WANDB_SILENT": "true"}
        everything |= {"TMPDIR": self._folder.name, **environment}
        self._errors = Path(self._folder.name) / "stderr"
        self._command = [sys.executable, "-m", module, *arguments]
        self.process = subprocess.Popen(
            self._command,
            env=everything,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors.open("wb"),
            text=True,
        )

    def hear(self) -> Any:
        """What it says next."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                return json.loads(line)
        said = self._errors.read_text(encoding="utf-8", errors="replace")[-2_000:]
        raise RuntimeError(f"{self._command} ended with status {self.process.wait()}: {said}")

    def ask(self, what: object = "") -> Any:
        """Send a line, and what it answers."""
        self.say(what)
        return self.hear()

    def say(self, what: object = "") -> None:
        assert self.process.stdin is not None
        print(what, file=self.process.stdin, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._folder.cleanup()


def answer(value: Any) -> None:
    """In such a process: say a value."""
    print(json.dumps(value), flush=True)
