"""Documents of snapshots, trimmed to what advice looks at; each case changes what makes one condition true."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from jaxobs.derive import advice
from tests.derive.views import snapshot_of

Document = dict[str, Any]


def advise(document: Document) -> list[dict[str, Any]]:
    """The advice on the snapshot whose document that is."""
    return advice.advise(snapshot_of(document))


COMPONENTS = (
    "compute", "memory", "communication", "transfer", "input", "host", "compile", "checkpoint", "latency",
    "unmodelled", "unknown",
)  # fmt: skip

GPU = {
    "float64": 67e12, "float32": 67e12, "tensorfloat32": 494.7e12, "bfloat16": 989.4e12, "float16": 989.4e12,
}  # fmt: skip
"""FLOP/s of an H100's matrix unit, of its datasheet."""


def shares(**known: float) -> dict[str, float]:
    """Of all components; what is left is compute."""
    found = dict.fromkeys(COMPONENTS, 0.0) | known
    found["compute"] += 1.0 - sum(found.values())
    return found


def quiet() -> Document:
    """A job in good order: a GPU that computes in bfloat16 nearly all the time."""
    return {
        "process": {
            "seconds": 1_000.0,
            "platform": "gpu",
            "persistent_cache": {
                "enabled": True, "hits": 3, "misses": 0, "compilations_without": 0, "seconds_saved": 20.0,
                "seconds_without": 0.0, "seconds_not_kept": 0.0,
            },
        },
        "loops": {
            "train": {
                "steps": 5_000, "wall_seconds": 900.0, "step_seconds": 0.18, "step_seconds_source": "completions",
                "bottleneck": {
                    "label": "compute", "confidence": 0.8, "runner_up": "host", "shares": shares(host=0.02),
                },
                "profile": {
                    "windows": 3, "seconds": 1.8, "steps": 10.0, "busy_seconds": 1.7, "gap_seconds": 0.0,
                    "communication_seconds": 0.0,
                    "seconds_by_bottleneck": {"compute": 1.7},
                },
            },
            "eval": {
                "steps": 20, "wall_seconds": 100.0, "step_seconds": 5.0,
                "bottleneck": {
                    "label": "compute", "confidence": 0.5, "runner_up": "input", "shares": shares(input=0.005),
                },
                "profile": None, "profile_reason": "no profiler window that holds for this loop has been read",
            },
        },
        "functions": {
            "train_step": {
                "compilations": 2,
                "seconds": {"trace": 0.5, "lower": 0.2, "backend": 8.0, "cache_read": 0.0},
                "recompilations": [
                    {
                        "cause": "shape", "argument": "batch['tokens']", "old": "int32[32,512]", "new": "int32[7,512]",
                        "call_site": "train.py:12", "count": 1, "seconds": 0.9, "grows": False,
                    }
                ],
            },
        },
        "executables": [
            {
                "function": "train_step", "executable": "0123456789abcdef", "runs": 5_000, "seconds": 850.0,
                "seconds_per_run": 0.17, "samples": 21,
                "cost": {
                    "flops": 1.02e14, "matrix_flops": 1e14, "bytes": 4e11, "exact": True, "intensity": 255.0,
                    "executed_matrix_flops_by_type": {"bfloat16": 1e14},
                },
                "bottleneck": {"label": "compute", "confidence": 0.6, "runner_up": "memory"},
                "memory": {"argument": 6 * 2**30, "output": 6 * 2**30, "temporary": 2**30, "alias": 6 * 2**30},
                "donatable_bytes": 4_096.0,
            }
        ],
        "operations": [
            {
                "function": "train_step", "executable": "0123456789abcdef", "operation": "fusion.1", "category": "fusion",
                "kind": "compute", "scope": "", "source": "", "called_from": "", "count": 10, "executions": 10,
                "seconds": 1.7, "share": 1.0, "bottleneck": "compute",
            }
        ],
        "devices": [
            {
                "device": 0, "kind": "NVIDIA H100 80GB HBM3",
                "peaks": {
                    "matrix": {dtype: {"value": rate, "provenance": "datasheet"} for dtype, rate in GPU.items()},
                    "memory": {"value": 3.35e12, "provenance": "datasheet"},
                    "memory_capacity": 80e9,
                },
                "memory": {"limit_bytes": 80e9, "in_use_bytes": 5e9},
                "clocks": {
                    "clock_ratio": 0.93, "memory_clock_ratio": 1.0, "compute_taken_ratio": 0.0, "memory_taken_ratio": 0.0,
                    "throttle_reasons": ["sw_power_cap"],
                },
            }
        ],
    }  # fmt: skip


def with_shares(document: Document, label: str, confidence: float = 0.5, **known: float) -> Document:
    document["loops"]["train"]["bottleneck"] = {
        "label": label, "confidence": confidence, "runner_up": "compute", "shares": shares(**known),
    }  # fmt: skip
    return document


def recompiling(count: int = 40, seconds: float = 60.0, cause: str = "shape") -> Document:
    document = quiet()
    (row,) = document["functions"]["train_step"]["recompilations"]
    row |= {"count": count, "seconds": seconds, "cause": cause}
    return document


def without_a_cache(spent: float = 90.0, not_kept: float = 88.0) -> Document:
    document = quiet()
    document["process"]["persistent_cache"] |= {
        "enabled": False, "hits": 0, "compilations_without": 2, "seconds_saved": 0.0, "seconds_without": spent,
        "seconds_not_kept": not_kept,
    }  # fmt: skip
    return document


def waiting_for_input(share: float = 0.4, unknown: float = 0.0) -> Document:
    return with_shares(quiet(), "input", input=share, unknown=unknown)


def busy_host(share: float = 0.4) -> Document:
    return with_shares(quiet(), "host", host=share)


def communicating(share: float = 0.4) -> Document:
    return with_shares(quiet(), "communication", communication=share)


def small_operations(
    count: int = 3_000, seconds: float = 0.02, share: float = 0.6, gap: float = 0.04
) -> Document:
    """A window of ten steps in which the device was busy for `seconds`, and waited for `gap` between operations."""
    document = with_shares(quiet(), "latency", latency=share)
    document["operations"][0] |= {"executions": count, "seconds": seconds, "bottleneck": "latency"}
    document["loops"]["train"]["profile"] |= {
        "busy_seconds": seconds, "gap_seconds": gap, "seconds_by_bottleneck": {"latency": seconds + gap},
    }  # fmt: skip
    return document


def small_batch(intensity: float = 20.0, alias: float = 6 * 2**30, label: str = "memory") -> Document:
    document = quiet()
    moved = 2e10
    document["executables"][0]["cost"] |= {
        "flops": intensity * moved, "matrix_flops": 0.9 * intensity * moved, "bytes": moved,
        "executed_matrix_flops_by_type": {"bfloat16": 0.9 * intensity * moved},
    }  # fmt: skip
    document["executables"][0]["memory"]["alias"] = alias
    document["executables"][0]["bottleneck"] = {"label": label, "confidence": 0.6, "runner_up": "compute"}
    return training(document)


def single_precision(peak_of_half: float = GPU["bfloat16"], written: float = 0.8e14) -> Document:
    document = quiet()
    document["executables"][0]["cost"] |= {
        "executed_matrix_flops_by_type": {"float32": 0.8e14, "bfloat16": 0.2e14},
        "matrix_flops_by_type": {"float32": written, "bfloat16": 1e14 - written},
    }
    document["devices"][0]["peaks"]["matrix"]["bfloat16"]["value"] = peak_of_half
    return document


def not_donated(saved: float = 6 * 2**30, runs: int | None = 5_000) -> Document:
    document = quiet()
    document["executables"][0] |= {"donatable_bytes": saved, "runs": runs}
    return document


def throttled(taken: float = 0.3, memory: float = 0.0, compute_bound: float = 0.98) -> Document:
    """A second device, which sets the pace of the first."""
    document = with_shares(quiet(), "compute", memory=0.98 - compute_bound, host=0.02)
    hot = copy.deepcopy(document["devices"][0]) | {"device": 1}
    hot["clocks"] |= {
        "clock_ratio": 0.6, "compute_taken_ratio": taken, "memory_taken_ratio": memory,
        "throttle_reasons": ["hw_thermal_slowdown"],
    }  # fmt: skip
    document["devices"].append(hot)
    document["loops"]["eval"]["bottleneck"]["shares"] = shares(checkpoint=1.0)
    return document


def training(document: Document) -> Document:
    """The same where a backward pass was compiled."""
    return document | {"with_gradients": [row["executable"] for row in document["executables"]]}


def running_out(seconds: float = 1_200.0, growth: float = 2.0**20) -> Document:
    """Memory of the device that grows steadily."""
    document = quiet()
    document["devices"][0]["memory"] |= {"forecast_seconds": seconds, "growth_bytes_per_second": growth}
    return document


TRUE: dict[str, Callable[[], Document]] = {
    "memory_exhaustion": running_out,
    "recompilation": recompiling,
    "persistent_cache": without_a_cache,
    "input_wait": waiting_for_input,
    "host_work": busy_host,
    "exposed_communication": communicating,
    "small_operations": small_operations,
    "small_batch": small_batch,
    "slow_element_type": single_precision,
    "throttled_device": throttled,
    "donation": not_donated,
}
"""By condition, a document in which it alone is true."""


def everything_wrong() -> Document:
    """Each condition at once; the loop's time is shared out over four of them."""
    document = with_shares(
        quiet(), "input", confidence=0.2, input=0.3, host=0.2, communication=0.15, latency=0.15
    )
    small = small_operations()
    document["operations"] = small["operations"]
    document["loops"]["train"]["profile"] = small["loops"]["train"]["profile"]
    document["functions"] = recompiling()["functions"]
    document["process"] = without_a_cache()["process"]
    other = small_batch()["executables"][0] | {"function": "eval_step", "seconds": 40.0}
    document["with_gradients"] = [other["executable"]]
    document["executables"] = [single_precision()["executables"][0], other, not_donated()["executables"][0]]
    return copy.deepcopy(document)


def keys(value: Any, path: str = "") -> set[str]:
    """Paths in a document; names of functions, loops and element types stand for any."""
    found = {path} if path else set()
    if isinstance(value, Mapping):
        for key, part in value.items():
            anybody = path in {".loops", ".functions"} or path.endswith(("_by_type", ".matrix", ".shares"))
            found |= keys(part, f"{path}.{'*' if anybody else key}")
    elif isinstance(value, list):
        for part in value:
            found |= keys(part, f"{path}[]")
    return found
