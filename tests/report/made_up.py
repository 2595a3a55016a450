"""Records as a run would leave them, made of what a test wants to be different."""

from __future__ import annotations

import random
from typing import Any

from jaxobs.report.record import FORMAT, VERSION, Content, Record


def windows(
    step: float = 0.01, *, number: int = 40, noise: float = 0.02, waited: float = 0.0005, seed: int = 0
) -> dict[str, list[float | None]]:
    """Stretches of a second; `noise` is their relative spread."""
    chance = random.Random(seed)
    factors = [1 + noise * chance.gauss(0, 1) for _ in range(number)]
    steps = [round(1 / step) for _ in factors]
    seconds = [count * step * factor for count, factor in zip(steps, factors, strict=True)]
    waits = [count * waited * factor for count, factor in zip(steps, factors, strict=True)]
    return {
        "steps": [float(count) for count in steps],
        "seconds": list(seconds),
        "component/input": list(waits),
        "component/compute": [whole - wait for whole, wait in zip(seconds, waits, strict=True)],
    }


def executable(function: str = "train_step", **changes: Any) -> dict[str, Any]:
    flops = changes.pop("flops", 1e9)
    types = changes.pop("types", {"bfloat16": 1.0})
    matrix = {name: share * flops for name, share in types.items()}
    return {
        "function": function,
        "executable": f"{function}-{flops:g}-{sorted(types)}",
        "cost": {
            "flops": flops,
            "bytes": 1e8,
            "matrix_flops_by_type": matrix,
            "executed_matrix_flops_by_type": matrix,
            "float32_flops_by_precision": {},
        },
        "runs": 4_000,
        "seconds": 40.0,
        "seconds_per_run": 0.009,
        "efficiency": 0.4,
        "memory": {"output": changes.pop("output", 4e6)},
        **changes,
    }


def again(function: str, count: int) -> dict[str, Any]:
    row = {
        "cause": "shape", "argument": "x", "old": "f32[256]", "new": "f32[128]", "call_site": "train.py:9",
        "count": count, "seconds": 0.5 * count,
    }  # fmt: skip
    return {
        function: {
            "compilations": 1 + count,
            "recompilation_count": count,
            "recompilations": [row] if count else [],
            "seconds": {"trace": 0.1, "lower": 0.1, "backend": 0.3 * (1 + count)},
        }
    }


def content(**changes: Any) -> Content:
    """`examples`: of a step; `versions`, `settings`, `kind`, `recompiles` and what `executable` takes."""
    stretches = changes.pop("stretches", None) or windows()
    steps = sum(value or 0.0 for value in stretches["steps"])
    wall = sum(value or 0.0 for value in stretches["seconds"])
    examples = changes.pop("examples", 256)
    loop = {
        "steps": int(steps),
        "wall_seconds": wall,
        "examples": None if examples is None else examples * steps,
        "tokens": None,
        "mfu": 0.4,
        "hfu": 0.4,
    }
    return {
        "format": FORMAT,
        "version": VERSION,
        "state": "ended",
        "written": 1_795_370_400.0,
        "began": changes.pop("began", 1_795_370_300.0),
        "settings": {"interval": 1.0} | changes.pop("settings", {}),
        "environment": changes.pop("environment", {}),
        "versions": {"jax": "0.10.2"} | changes.pop("versions", {}),
        "windows": {"train": stretches},
        "snapshot": {
            "process": {
                "run": "train", "process_index": changes.pop("rank", 0), "process_count": 1, "seconds": wall + 2,
                "host_name": "node", "platform": "cpu", "counts_begin_seconds": None, "memory": {"peak_bytes": 3e8},
            },
            "loops": {"train": loop},
            "functions": again("train_step", changes.pop("recompiles", 0)),
            "devices": [{"kind": changes.pop("kind", "NVIDIA H100"), "memory": {"peak_bytes": 1e9}}],
            "operations": [],
            "device_time": changes.pop("device_time", None),
            "executables": [executable(**changes)],
        },
    }  # fmt: skip


def record(name: str = "a.json", **changes: Any) -> Record:
    return Record(name, content(**changes))
