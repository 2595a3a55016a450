"""A snapshot's document that no job made, with the parts that drawings read: for their tests and their benchmark."""

from __future__ import annotations

import random
from typing import Any

from jaxobs.vocabulary.words import COMPONENTS

FLOPS, BANDWIDTH = 250e9, 18e9


def executable(number: int = 0, function: str = "train_step") -> dict[str, Any]:
    """An executable somewhere below the roof; the larger its number, the less time it takes."""
    drawn = random.Random(number)
    intensity, efficiency = 10 ** drawn.uniform(-1, 3), drawn.uniform(0.1, 1.0)
    attainable = min(intensity * BANDWIDTH, FLOPS)
    return {
        "function": function,
        "executable": f"{number:016x}",
        "cost": {"flops": 1e9, "bytes": 1e9 / intensity, "intensity": intensity},
        "runs": 10,
        "seconds": 1.0 / (number + 1),
        "seconds_per_run": 0.1 / (number + 1),
        "achieved_flops_per_second": efficiency * attainable,
        "attainable_flops_per_second": attainable,
        "efficiency": efficiency,
        "bottleneck": {"label": "compute" if intensity > FLOPS / BANDWIDTH else "memory"},
    }


def operation(number: int = 0, name: str = "dot") -> dict[str, Any]:
    """An operation, which lies where the executable of its number does."""
    row = executable(number)
    return {
        "function": "train_step", "executable": row["executable"], "operation": f"{name}.{number}", "category": "dot",
        "scope": "layer", "source": "/home/ada/train.py:12", "share": 0.01, "intensity": row["cost"]["intensity"],
        "achieved_flops_per_second": row["achieved_flops_per_second"], "efficiency": row["efficiency"],
        "bottleneck": "compute",
    }  # fmt: skip


def loop(steps: int = 100, name: str = "loss", **seconds: float) -> dict[str, Any]:
    """A loop that has recorded one value, with so many seconds by component."""
    components = dict.fromkeys(COMPONENTS, 0.0) | {"compute": 0.6, "input": 0.4} | seconds
    wall = sum(components.values())
    return {
        "steps": steps,
        "wall_seconds": wall,
        "step_seconds": wall / steps,
        "steps_per_second": steps / wall if wall else None,
        "tokens": steps * 4096.0,
        "tokens_per_second": 4096.0 * steps / wall if wall else None,
        "mfu": 0.4,
        "hfu": 0.4, "components": components, "recorded": {name: 1.5, "absent": "not ready"},
        "bottleneck": {"label": "compute", "confidence": 0.8, "runner_up": "input",
                       "shares": {part: value / (wall or 1.0) for part, value in components.items()}, "reason": None},
        "host_lines": [
            {"line": "train.py:12 load", "waits_in": "", "activity": "input", "seconds": 3.0, "share": 0.3}
        ],
        "device_idle": 0.4,
    }  # fmt: skip


def recompilation(**changed: Any) -> dict[str, Any]:
    """Why a function was compiled again."""
    row = {"cause": "shape", "argument": "tokens", "old": "int32[8,128]", "new": "int32[8,96]",
           "call_site": "/home/ada/train.py:84", "count": 3, "seconds": 4.2}  # fmt: skip
    return row | changed


def device_time(name: str = "attention", file: str = "/home/ada/model.py") -> dict[str, Any]:
    """A step that calls a line, which has a forward and a backward part, and operations without a line."""

    def row(depth: int, name: str, seconds: float, file: str = "", line: int = 0) -> dict[str, Any]:
        return {
            "depth": depth, "name": name, "file": file, "line": line, "bottleneck": "memory",
            "share": seconds / 4, "flops": 1e9 * seconds, "bytes": 1e8 * seconds, "bound": "memory",
            "efficiency": 0.8, "seconds": seconds, "reason": None, "operations": [],
        }  # fmt: skip

    lines = [
        row(0, "main.<locals>.step", 3.0, file, 201), row(1, name, 3.0, file, 118),
        row(2, "(backward)", 2.0), row(2, "(forward)", 1.0),
        row(0, "(no source line)", 1.0), row(1, "copy.1", 1.0) | {"flops": None, "efficiency": None},
    ]  # fmt: skip
    lines[2]["operations"] = [row(0, "dot.7", 1.5), row(0, "fusion.3", 0.5)]
    scopes = [row(0, "layer", 3.0), row(1, "(forward)", 3.0), row(0, "(no named scope)", 1.0)]
    return {"by_line": lines, "by_scope": scopes}


def document(executable_count: int = 3, operation_count: int = 3, **changed: Any) -> dict[str, Any]:
    """The whole document, with other parts where they are given."""
    memory = {
        "in_use_bytes": 6 * 2**30,
        "peak_bytes": 7 * 2**30,
        "limit_bytes": 8 * 2**30,
        "forecast_seconds": 900.0,
    }
    found = {
        "process": {"run": "first", "host_name": "node1", "jax": "0.10.2", "platform": "gpu", "seconds": 60.0,
                    "process_index": 1, "process_count": 4, "goodput": 0.9,
                    "address": "http://localhost:9464/metrics"},
        "loops": {"train": loop()},
        "functions": {"train_step": {"compilations": 4, "recompilation_count": 3, "seconds": {"backend": 4.0},
                                     "recompilations": [recompilation()]}},
        "executables": [executable(number) for number in range(executable_count)],
        "operations": [operation(number) for number in range(operation_count)],
        "device_time": device_time(),
        "devices": [{"device": 0, "kind": "NVIDIA H100", "memory": memory, "clocks": None, "clocks_reason": "no NVML",
                     "peaks": {"matrix": {"float32": {"value": FLOPS, "provenance": "datasheet"}},
                               "memory": {"value": BANDWIDTH, "provenance": "datasheet"}},
                     "roofs": [{"dtype": "float32", "flops_per_second": FLOPS, "bytes_per_second": BANDWIDTH}]}],
        "sources": {"host": {"kind": "collector", "up": True, "reason": None},
                    "nvidia": {"kind": "collector", "up": False, "reason": "NVML: driver not loaded"}},
        "advice": [{"sentence": "The loop waits.", "remedy": "Load ahead.", "saves_ratio": 0.3}],
        "agent": {"cpu_seconds": {"probe": 0.2, "agent": 0.9}, "resident_bytes": 47e6, "events_accepted": 4079},
    }  # fmt: skip
    return found | changed
