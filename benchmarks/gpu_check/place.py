"""Where a check runs: on which device, and the folder of what is kept beside the results page."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.observed import Run, run
from benchmarks.truths import Figure, Value

FIGURES = "figures.jsonl"


@dataclass(frozen=True)
class Place:
    """`folder` is the check's own; `platform` and `device_kind` are JAX's."""

    folder: Path
    platform: str
    device_kind: str

    @property
    def on_gpu(self) -> bool:
        """Whether sizes are those of a GPU; small ones elsewhere, so that the command can be tried."""
        return self.platform == "gpu"

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


def told_of(name: str, document: Mapping[str, Any], key: str, truth: Value = None, **given: Any) -> Figure:
    """A figure of a document, where its reason stands beside it if there is none."""
    return Figure(name, document.get(key), truth, reason=document.get(f"{key}_reason"), **given)


def say(figures: Iterable[Figure], folder: Path) -> None:
    """Write each as it comes: a check that is stopped at its deadline loses nothing that it had said."""
    with (folder / FIGURES).open("a", encoding="utf-8") as file:
        for figure in figures:  # numbers of NumPy and JAX become Python's
            print(json.dumps(asdict(figure), default=float), file=file, flush=True)


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
