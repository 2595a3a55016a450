"""Stores calibrations: one JSON file for each device, processor, core count and jaxlib version.

Reading never raises: a file that is missing, damaged or written for another key counts as none, with the reason.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jaxobs.hardware.calibration import Calibration, CalibrationError
from jaxobs.hardware.chips import normalised
from jaxobs.vocabulary.text import read_json

_LARGEST_FILE = 4 * 2**20  # bytes; a calibration takes about 10 kB


class NoHomeError(OSError):
    """The user's home directory is unknown; the message says what to do."""


@dataclass(frozen=True, slots=True)
class CalibrationKey:
    """The device, host and version for which a calibration holds."""

    device_kind: str
    processor: str
    cores: int
    jaxlib: str

    @property
    def file_name(self) -> str:
        """The name of the file for this key; other keys have other names, but for a collision of hashes."""
        text = "\n".join((normalised(self.device_kind), self.processor, str(self.cores), self.jaxlib))
        return f"calibration-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def this_host(device_kind: str, jaxlib: str | None = None) -> CalibrationKey:
    """The key for a device of this host, with the installed jaxlib's version if none is given."""
    if jaxlib is None:
        try:
            jaxlib = importlib.metadata.version("jaxlib")
        except importlib.metadata.PackageNotFoundError:
            jaxlib = "none"
    return CalibrationKey(device_kind, processor_model(), usable_cores(), jaxlib)


def cache_directory(chosen: Path | None = None, environment: Mapping[str, str] | None = None) -> Path:
    """The folder: as chosen, else JAXOBS_CACHE_DIRECTORY, else `jaxobs` under XDG_CACHE_HOME or ~/.cache.

    Raises NoHomeError where it would be the last and no home directory is known.
    """
    environment = os.environ if environment is None else environment
    if chosen is not None:
        return chosen
    if environment.get("JAXOBS_CACHE_DIRECTORY"):
        return Path(environment["JAXOBS_CACHE_DIRECTORY"])
    home = environment.get("XDG_CACHE_HOME", "")
    # The XDG Base Directory Specification: a path that is not absolute is to be ignored.
    if Path(home).is_absolute():
        return Path(home) / "jaxobs"
    try:
        return Path("~/.cache").expanduser() / "jaxobs"
    except RuntimeError as error:  # as in containers that run under any user number
        raise NoHomeError(
            "no home directory is known to keep calibrated peaks in (HOME is not set, and this user has no entry in the "
            "password file): set JAXOBS_CACHE_DIRECTORY"
        ) from error


def processor_model(cpu_information: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, or its architecture where the system does not provide one."""
    with contextlib.suppress(OSError):
        for line in cpu_information.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return " ".join(value.split())
    return platform.processor() or platform.machine() or "unknown"


def usable_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Cores that this process may use: those of its affinity, fewer where a control group allows fewer."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroup)
    return max(1, affinity if quota is None else min(affinity, int(quota)))


def _quota(cgroup: Path) -> float | None:
    """Cores' worth of time that the control group (version 2, else 1) allows; None where it sets no limit."""
    with contextlib.suppress(OSError, ValueError):
        limit, period = (cgroup / "cpu.max").read_text(encoding="utf-8").split()[:2]
        return None if limit == "max" else int(limit) / int(period)
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        limit_1 = int((cgroup / "cpu/cpu.cfs_quota_us").read_text(encoding="utf-8"))
        period_1 = int((cgroup / "cpu/cpu.cfs_period_us").read_text(encoding="utf-8"))
        return None if limit_1 <= 0 else limit_1 / period_1
    return None


def key_of(calibration: Calibration) -> CalibrationKey:
    """The key of a calibration."""
    return CalibrationKey(
        device_kind=calibration.device_kind,
        processor=calibration.processor,
        cores=calibration.cores,
        jaxlib=calibration.jaxlib,
    )


def write_calibration(calibration: Calibration, path: Path) -> None:
    """Write a calibration atomically, so that no reader sees half of it. Raises OSError on failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".calibration-", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(calibration.to_dict(), file, indent=1, allow_nan=False)
            file.write("\n")
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_calibration(path: Path) -> tuple[Calibration | None, str | None]:
    """The calibration in a file, or None and why there is none."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a FIFO would be waited for
            return None, f"{path} is no calibration: not a regular file"
        if found.st_size > _LARGEST_FILE:
            return None, f"{path} is no calibration: larger than {_LARGEST_FILE} bytes"
        return Calibration.from_dict(read_json(path.read_bytes())), None
    except FileNotFoundError:
        return None, f"no calibration is kept at {path}; run `jaxobs calibrate`"
    except OSError as error:
        return None, f"{path} cannot be read: {error.strerror or error}"
    except (CalibrationError, ValueError) as error:
        return None, f"{path} is no calibration: {error}; run `jaxobs calibrate` to write it anew"


def load_calibration(key: CalibrationKey, directory: Path) -> tuple[Calibration | None, str | None]:
    """The stored calibration for a key, or None and why there is none."""
    path = directory / key.file_name
    calibration, reason = read_calibration(path)
    if calibration is not None and key_of(calibration).file_name != key.file_name:
        return None, f"{path} was measured on something else; run `jaxobs calibrate` to write it anew"
    return calibration, reason


def save_calibration(calibration: Calibration, directory: Path) -> Path:
    """Store a calibration where `load_calibration` finds it; returns the path. Raises OSError on failure."""
    path = directory / key_of(calibration).file_name
    write_calibration(calibration, path)
    return path
