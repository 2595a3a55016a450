"""What was measured on, and with which versions."""

from __future__ import annotations

import datetime
import os
import platform

import psutil

from benchmarks.costs.peers import installed
from jaxobs.hardware.calibration import processor_model

OURS = ("jaxobs", "jax", "jaxlib")


def described(distributions: tuple[str, ...]) -> dict[str, str]:
    """The date, the machine, and the versions of ours and of `distributions`."""
    names = dict.fromkeys((*OURS, *distributions))
    versions = [f"{name} {installed(name) or 'is not installed'}" for name in names]
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{processor_model()}, {os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": platform.platform(),
        "versions": f"Python {platform.python_version()}, {', '.join(versions)}",
        "load average": f"{os.getloadavg()[0]:.1f}",
    }
