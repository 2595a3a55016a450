"""The checks in the order of their worth: a new one is a file in `checks/` and a line here."""

from __future__ import annotations

from typing import NamedTuple


class Check(NamedTuple):
    """One check. `seconds` is what it takes on an H200, `deadline` when it is stopped."""

    name: str
    """That of its file in `checks/`."""
    title: str
    seconds: float
    deadline: float


CHECKS = (
    Check("device", "What the device is", 15, 60),
    Check("training", "A transformer step in bfloat16, rematerialised and donated", 85, 160),
    Check("products", "Products, copies and softmax against long runs by the wall clock", 60, 120),
    Check("attention", "Attention, plain and cuDNN's, forward and backward", 45, 100),
    Check("readings", "NVML against nvidia-smi, device memory against JAX", 40, 80),
    Check("unchanged", "`jaxobs run` on a script as it is, and how long exits take", 80, 150),
    Check("labels", "Loops built so that their label is known", 110, 200),
    Check("out_of_memory", "A real RESOURCE_EXHAUSTED and its report", 30, 75),
    Check("windows", "What profiler windows do to step time", 70, 110),
    Check("paired", "Step time with and without jaxobs, in turns", 70, 130),
    Check("calibration", "`jaxobs calibrate` against the datasheet", 60, 190),
    Check("labels_without_command_buffers", "The same loops without command buffers", 60, 120),
)
"""Seconds are estimates: no device has run these yet. A check is left out where less than half of them is left."""


def chosen(names: list[str] | None, left_out: list[str]) -> list[Check]:
    """The checks to run. Raises ValueError, with what there is, for a name that none has."""
    known = [check.name for check in CHECKS]
    unknown = [name for name in [*(names or ()), *left_out] if name not in known]
    if unknown:
        raise ValueError(f"no check is called {', '.join(unknown)}: there are {', '.join(known)}")
    return [
        check for check in CHECKS if (names is None or check.name in names) and check.name not in left_out
    ]
