"""What is measured on: JAX's device, asked in a process of its own, and what nvidia-smi says of it."""

from __future__ import annotations

import csv
import datetime
import re
import shutil
import subprocess
from typing import NamedTuple

from benchmarks.costs.machine import described
from jaxobs.cli.check import read_devices

SMI_FIELDS = ("name", "compute_cap", "driver_version", "vbios_version", "memory.total", "clocks.max.sm", "clocks.max.mem",
              "enforced.power.limit", "compute_mode", "persistence_mode", "mig.mode.current", "ecc.mode.current",
              "pcie.link.gen.max", "pcie.link.width.max")  # fmt: skip
"""By `nvidia-smi --help-query-gpu`."""


class Machine(NamedTuple):
    """`facts` are for the page: what nvidia-smi says of the first device is among them."""

    platform: str
    device_kind: str
    facts: dict[str, str]

    @property
    def slug(self) -> str:
        """The device in letters that any file system takes."""
        return re.sub(r"[^a-z0-9]+", "-", self.device_kind.lower()).strip("-") or "device"


def find_machine() -> Machine:
    """What there is. Raises RuntimeError with JAX's own words where it finds no device."""
    told = read_devices()
    if told["error"] or not told["devices"]:
        raise RuntimeError(f"JAX finds no device: {told['error']}")
    kind = told["devices"][0]["kind"]
    facts = described(
        ("nvidia-ml-py", "jax-cuda13-plugin", "jax-cuda12-plugin", "nvidia-cudnn-cu13", "nvidia-cublas")
    )
    facts["device"] = f"{kind}, {len(told['devices'])} of them"
    facts |= {f"nvidia-smi {name}": value for name, value in nvidia_smi(SMI_FIELDS).items()}
    facts["time"] = datetime.datetime.now(datetime.UTC).strftime("%H:%M UTC")
    return Machine(told["platform"], kind, facts)


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
