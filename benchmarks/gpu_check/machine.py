"""What is measured on: JAX's device, asked in a process of its own, and what nvidia-smi says of it."""

from __future__ import annotations

import csv
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.costs.machine import described

START_SECONDS = 120.0
"""CUDA's start takes seconds; one that takes longer hangs."""

ASK = """
import json, jax, jaxlib
device = jax.local_devices()[0]
told = {"platform": jax.default_backend(), "device_kind": device.device_kind, "devices": len(jax.local_devices()),
        "jax": jax.__version__, "jaxlib": jaxlib.__version__, "backend": device.client.platform_version}
for name in ("compute_capability", "core_count"):
    told[name] = getattr(device, name, None)
print("\\n" + json.dumps(told, default=str))
"""
"""Attributes of a CUDA device in PJRT (openxla/xla, xla/pjrt/gpu/se_gpu_pjrt_client.cc); others lack them."""

SMI_FIELDS = ("name", "driver_version", "vbios_version", "memory.total", "clocks.max.sm", "clocks.max.mem",
              "enforced.power.limit", "compute_mode", "persistence_mode", "mig.mode.current", "ecc.mode.current",
              "pcie.link.gen.max", "pcie.link.width.max")  # fmt: skip
"""By `nvidia-smi --help-query-gpu`."""


class Machine(NamedTuple):
    """`facts` are for the page, `smi` is what nvidia-smi says of the first device, empty without it."""

    platform: str
    device_kind: str
    facts: dict[str, str]
    smi: dict[str, str]

    @property
    def slug(self) -> str:
        """The device in letters that any file system takes."""
        return re.sub(r"[^a-z0-9]+", "-", self.device_kind.lower()).strip("-") or "device"


def find_machine() -> Machine:
    """What there is. Raises RuntimeError with JAX's own words where it finds no device."""
    # A process that holds most of the device's memory would leave none for the checks.
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "-c", ASK]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=START_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"JAX found no device within {START_SECONDS:.0f} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise RuntimeError(f"JAX finds no device: {said[-1] if said else f'status {done.returncode}'}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    smi = nvidia_smi(SMI_FIELDS)
    facts = described(
        ("nvidia-ml-py", "jax-cuda13-plugin", "jax-cuda12-plugin", "nvidia-cudnn-cu13", "nvidia-cublas")
    )
    facts["device"] = f"{told['device_kind']}, {told['devices']} of them, compute capability " + str(
        told["compute_capability"]
    )
    facts["multiprocessors"] = str(told["core_count"])
    facts["backend"] = " ".join(str(told["backend"]).split())
    facts |= {f"nvidia-smi {name}": value for name, value in smi.items()}
    facts["time"] = datetime.datetime.now(datetime.UTC).strftime("%H:%M UTC")
    return Machine(told["platform"], told["device_kind"], facts, smi)


def nvidia_smi(fields: tuple[str, ...]) -> dict[str, str]:
    """Fields of the first device as nvidia-smi prints them without units; empty where it is not there.

    A field that this version does not know makes it refuse the whole query: then they are asked one by one.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    row = _query(program, fields)
    if row is not None:
        return dict(zip(fields, row, strict=True))
    rows = {field: _query(program, (field,)) for field in fields}
    return {field: found[0] for field, found in rows.items() if found}


def _query(program: str, fields: tuple[str, ...]) -> list[str] | None:
    command = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", "--id=0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return None
    row = next(csv.reader(done.stdout.splitlines(), skipinitialspace=True), None)
    return row if done.returncode == 0 and row is not None and len(row) == len(fields) else None


def amount(text: str | None) -> float | None:
    """A number of nvidia-smi; None for `[N/A]`, `[Not Supported]` and the like."""
    try:
        return float(text or "")
    except ValueError:
        return None


ROOT = Path(__file__).parents[2]
"""The checkout: `benchmarks` is no part of the wheel."""
