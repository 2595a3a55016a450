"""Scripts for the library of `nvml.c`, and the process in which the collector meets them."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

Answers = Mapping[str, str]
Series = tuple[str, tuple[str, ...]]

HOST = {
    "nvmlInitWithFlags": "0",
    "nvmlDeviceGetCount": "0 1",
    "nvmlDeviceGetHandleByIndex": "0",
    "nvmlDeviceGetPciInfo/0": "0 00000000:18:00.0",
    "nvmlDeviceGetUUID/0": "0 GPU-aaaa",
    "nvmlDeviceGetName": "0 NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetMigMode": "0 0",
    "nvmlEventSetCreate": "0",
    "nvmlEventSetWait": "0",
    "nvmlDeviceRegisterEvents": "0",
}
"""A host with one board of which nothing but its identity can be read."""


def host(count: int, **changed: str) -> dict[str, str]:
    """HOST with so many boards; `changed` are answers for keys that are plain function names."""
    answers = HOST | {"nvmlDeviceGetCount": f"0 {count}"} | changed
    for index in range(count):
        answers[f"nvmlDeviceGetPciInfo/{index}"] = f"0 00000000:{0x18 + index:02X}:00.0"
        answers[f"nvmlDeviceGetUUID/{index}"] = f"0 GPU-{'abcdefgh'[index] * 4}"
    return answers


def script(answers: Answers) -> str:
    return "".join(f"{key} {value}\n" for key, value in answers.items())


def in_use(*numbers: int) -> dict[str, str]:
    """What JAX tells where it uses these of the devices that CUDA shows."""
    return {"jax.platform": "gpu", "jax.local_hardware_ids": ",".join(map(str, numbers))}


class Turn:
    """What one call of `collect()` gave."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.values: dict[Series, float] = {}
        for name, labels, value in answer["measured"]:
            assert (name, tuple(labels)) not in self.values
            self.values[name, tuple(labels)] = float(value)
        self.gone = {series for series, value in self.values.items() if math.isnan(value)}
        self.calls: list[str] = answer["calls"]

    def of(self, name: str) -> dict[tuple[str, ...], float]:
        """The series of a metric, named without prefix, that have a value."""
        return {
            labels: value
            for (metric, labels), value in self.values.items()
            if metric == f"jaxobs_nvidia_{name}" and not math.isnan(value)
        }


class Life:
    """What a collector did between start and stop."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.turns = [Turn(turn) for turn in answer["turns"]]
        self.reason: str = answer["reason"]
        self.log: list[str] = answer["log"]
        self.last_calls: list[str] = answer["last_calls"]
        self.present: list[str] = answer["present"]


class Nvml:
    """Runs collectors on scripts, one after the other, in one process that has the library."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, *turns: Answers | dict[str, Any], **request: Any) -> Life:
        """A turn is its answers, or a dictionary with `script` among other things that `program.py` knows."""
        listed = [turn if "script" in turn else {"script": script(turn)} for turn in turns]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"turns": listed, **request}) + "\n")
        self._process.stdin.flush()
        return Life(json.loads(self._process.stdout.readline()))


def compiler() -> str:
    found = shutil.which("cc")
    if found is not None:
        return found
    reason = "there is no C compiler: apt install gcc"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (nothing that CI can install is skipped there)", pytrace=False)
    pytest.skip(reason)


def built(folder: Path) -> Path:
    """The library under the name by which nvidia-ml-py loads it."""
    target = folder / "libnvidia-ml.so.1"
    command = [compiler(), "-shared", "-fPIC", "-O1", "-Wall", "-o", str(target), str(HERE / "nvml.c")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return target


def started(folder: Path, library: Path | None) -> Iterator[Nvml]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "JAX_"))
    }
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    environment["NVML_SCRIPT"], environment["NVML_CALLS"] = str(folder / "script"), str(folder / "calls")
    if library is not None:
        environment["LD_LIBRARY_PATH"] = str(library.parent)
    with subprocess.Popen(
        [sys.executable, str(HERE / "program.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        yield Nvml(process)
        process.stdin.close()
        assert process.wait(timeout=30) == 0
