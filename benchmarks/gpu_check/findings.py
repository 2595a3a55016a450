"""What a check says: figures beside their truths, notes, and files that are kept beside the results page."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.observed import Run, run
from benchmarks.truths import Figure, Value

FIGURES = "figures.jsonl"


@dataclass(frozen=True)
class Findings:
    """What a check writes, line by line: a check that is stopped at its deadline loses nothing that it had said.

    `folder` is the check's own; `platform` and `device_kind` are JAX's.
    """

    name: str
    folder: Path
    platform: str
    device_kind: str

    @property
    def on_gpu(self) -> bool:
        """Whether sizes are those of a GPU; small ones elsewhere, so that the command can be tried."""
        return self.platform == "gpu"

    def figure(
        self,
        name: str,
        found: Value,
        truth: Value = None,
        *,
        source: str = "",
        reason: str | None = None,
        **given: Any,
    ) -> None:
        """Say a figure, with its tolerance and unit; with `found` None and its reason, that there is none."""
        note = source if found is not None else reason or "no reason was given"
        figure = Figure(name, _plain(found), _plain(truth), note=note, **given)
        with (self.folder / FIGURES).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(figure)) + "\n")

    def of(self, name: str, document: Mapping[str, Any], key: str, truth: Value = None, **given: Any) -> None:
        """Say a figure of a document, where its reason stands beside it if there is none."""
        self.figure(name, document.get(key), truth, reason=document.get(f"{key}_reason"), **given)

    def unmeasured(self, name: str, reason: str) -> None:
        """Say that a figure could not be had, and why."""
        self.figure(name, None, reason=reason)

    def note(self, text: str) -> None:
        """Say a sentence for the results page."""
        self.figure("note", text)

    def evidence(self, name: str) -> Path:
        """Where to write a file that is kept beside the results page."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def keep_json(self, name: str, document: Any) -> None:
        """Keep plain data as evidence."""
        self.evidence(name).write_text(json.dumps(document, indent=1, default=str), encoding="utf-8")

    def run(
        self,
        name: str,
        script: Path,
        *words: str,
        variables: Mapping[str, str] = MappingProxyType({}),
        **how: Any,
    ) -> Run:
        """Run a script on this platform, and keep what it wrote as evidence of that name. `how`: as for `run`."""
        # The harness has the CPU's otherwise; an empty platform is JAX's own choice.
        environment = {"JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "")} | dict(variables)
        done = run(script, *words, environment=environment, **{"how": "plain", **how})
        written = done.stdout[-20_000:] + done.stderr[-200_000:]
        self.evidence(f"{name}.txt").write_text(written, encoding="utf-8")
        return done


def said_in(folder: Path) -> list[Figure]:
    """Figures that a check wrote; a line that is cut, because it was stopped, is left out."""
    figures = []
    path = folder / FIGURES
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            figures.append(Figure(**json.loads(line)))
    return figures


def jaxobs(*words: str, **variables: str) -> str:
    """What a command of jaxobs prints. Raises RuntimeError with its own words where it fails and prints nothing."""
    command, environment = [sys.executable, "-m", "jaxobs", *words], {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode and not done.stdout.strip():
        said = done.stderr.strip()[-500:]
        raise RuntimeError(f"`jaxobs {words[0]}` ended with status {done.returncode}: {said}")
    return done.stdout


def _plain(value: Any) -> Value:
    """Numbers of NumPy and JAX as Python's; NaN and infinities, which are no figures, as text."""
    if value is None or isinstance(value, str | bool):
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)
