"""The result of `jaxobs calibrate` on one device, and the file that keeps it.

There is one JSON file for each device, processor, core count and jaxlib version. Reading one never raises: a file that
is missing, damaged or measured on something else counts as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import math
import os
import platform
import stat
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from jaxobs.hardware.chips import normalised
from jaxobs.hardware.control_groups import cpu_limit, find_group
from jaxobs.vocabulary.text import read_json

SCHEMA_VERSION: Final = 2
_QUIET_MACHINE: Final = 0.25
"""Cores that other processes may use before a calibration counts as disturbed: on two cores, a load of 0.2 cost a tenth
of the best rates, and one of 1.3 half of them."""


class CalibrationError(ValueError):
    """The data cannot be read as a calibration by this version; the message says where it is wrong."""


@dataclass(frozen=True, slots=True)
class Rate:
    """One measured rate: the fastest sustained (median of a block of runs) over the measurement's rounds."""

    dtype: str
    size: int
    """Rows of the square matrices, elements of the array, or bytes of the working set."""
    per_second: float
    """FLOP/s (operations/s for integers), transcendental results/s, or bytes/s, read and written."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An element type without a peak, because this device's compiler makes no products in it."""

    dtype: str
    runs_as: str | None
    """The type that such a product runs in; None if the compiler refuses it."""
    reason: str
    """The reason as text that follows the type's name."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Peaks measured on one JAX device, with the device, host and versions for which they hold."""

    device_kind: str
    platform: str
    """JAX's name of the backend: `cpu`, `gpu`, `tpu`."""
    processor: str
    """The host's processor model."""
    cores: int
    """Cores that this process may use."""
    jax: str
    jaxlib: str
    created: float
    """Wall-clock seconds since the epoch."""
    seconds: float
    """The duration of the measurement."""
    matrix: tuple[Rate, ...]
    """Rates of square matrix products, by element type and size. Those of integers count operations, not FLOPs."""
    vector: tuple[Rate, ...]
    """Rates of multiply-adds on data in cache, by element type."""
    transcendentals: tuple[Rate, ...]
    """Rates of `exp`, by element type."""
    memory: tuple[Rate, ...]
    """Rates of passes over working sets: STREAM's copy and triad of each size."""
    other_load: float | None
    """Cores' worth of time that other processes used meanwhile; None if the system does not provide it."""
    left_out: tuple[LeftOut, ...] = ()
    """Element types of products that were not measured."""

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return file_name(self.device_kind, self.processor, self.cores, self.jaxlib)

    @property
    def disturbed(self) -> bool:
        """Whether other processes used so much of a processor that its peaks may be too low."""
        return self.platform == "cpu" and (self.other_load or 0.0) > _QUIET_MACHINE

    def memory_by_working_set(self) -> tuple[tuple[float, float], ...]:
        """Pairs (working-set bytes, bytes/s) with falling rates: a set gets the best rate of any larger one.

        A smaller set sometimes measures slower, from noise or because XLA uses one thread for it. The device can do
        better, and a peak is what the device can do.
        """
        envelope: dict[float, float] = {}
        best = 0.0
        for rate in sorted(self.memory, key=lambda rate: -rate.size):
            envelope[float(rate.size)] = best = max(best, rate.per_second)
        return tuple(reversed(envelope.items()))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the version of its schema."""
        return {"schema": SCHEMA_VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, document: object) -> Calibration:
        """The calibration in a document that `to_dict` made. Raises CalibrationError for any other."""
        if not isinstance(document, Mapping) or document.get("schema") != SCHEMA_VERSION:
            raise CalibrationError(f"it is no JSON object of schema {SCHEMA_VERSION}")
        try:
            found: Calibration = _built(cls, document)
        except (KeyError, TypeError, ValueError) as error:
            raise CalibrationError(f"a value is missing or wrong: {error}") from None
        return found


def fastest(rates: Iterable[Rate]) -> dict[str, Rate]:
    """The fastest of each element type."""
    best: dict[str, Rate] = {}
    for rate in rates:
        if rate.dtype not in best or rate.per_second > best[rate.dtype].per_second:
            best[rate.dtype] = rate
    return best


_ENTRIES: Final[Mapping[str, type[Any]]] = {"tuple[Rate, ...]": Rate, "tuple[LeftOut, ...]": LeftOut}


def _built(kind: type[Any], document: Any) -> Any:
    """The object whose fields the document has, each checked by its type."""
    return kind(**{each.name: _read(str(each.type), document[each.name]) for each in fields(kind)})


def _read(kind: str, value: Any) -> Any:
    """A field's value. Counts and rates are positive; a number that may be absent may be 0."""
    if kind in _ENTRIES:
        return tuple(_built(_ENTRIES[kind], entry) for entry in value)
    if value is None and kind.endswith(" | None"):
        return None
    if kind.startswith("str") and isinstance(value, str):
        return value
    if kind == "int" and type(value) is int and value >= 1:
        return value
    if kind.startswith("float") and type(value) in {int, float}:
        number = float(value)
        if 0 < number < math.inf or (number == 0 and kind != "float"):
            return number
    raise CalibrationError(f"expected a value of type {kind}, found {value!r}")


_MAX_FILE_BYTES = 4 * 2**20  # bytes; a calibration takes about 10 kB


def file_name(device_kind: str, processor: str, cores: int, jaxlib: str) -> str:
    """The name of the file for what a calibration holds for; others have other names, but for a collision of hashes."""
    text = "\n".join((normalised(device_kind), processor, str(cores), jaxlib))
    return f"calibration-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def this_host(device_kind: str, jaxlib: str | None = None) -> str:
    """The name of the file for a device of this host, with the installed jaxlib's version if none is given."""
    jaxlib = jaxlib or importlib.metadata.version("jaxlib")
    return file_name(device_kind, processor_model(), usable_cores(), jaxlib)


def cache_directory(chosen: Path | None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder: as the setting `cache_directory` says, else `jaxobs` below XDG_CACHE_HOME or ~/.cache.

    By the XDG Base Directory Specification a path that is not absolute is ignored. None if no home directory is known.
    """
    if chosen is not None:
        return chosen
    cache = Path(environment.get("XDG_CACHE_HOME", ""))
    with contextlib.suppress(RuntimeError):  # as in containers that run under any user number
        cache = cache if cache.is_absolute() else Path("~/.cache").expanduser()
    return cache / "jaxobs" if cache.is_absolute() else None


_ARM_NUMBERS: Final = ("CPU implementer", "CPU variant", "CPU part")


def processor_model(cpu_information: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, on ARM its numbers, or its architecture where the system does not provide one."""
    with contextlib.suppress(OSError):
        text = cpu_information.read_text(encoding="utf-8", errors="replace")
        lines = (line.partition(":") for line in text.splitlines())
        found = {" ".join(name.split()): " ".join(value.split()) for name, _, value in lines}
        numbers = ", ".join(f"{name} {found[name]}" for name in _ARM_NUMBERS if found.get(name))
        if name := found.get("model name") or numbers:
            return name
    return platform.processor() or platform.machine() or "unknown"


def usable_cores(proc: Path = Path("/proc")) -> int:
    """Cores that this process may use: those of its affinity, fewer where a control group allows fewer."""
    cores = len(os.sched_getaffinity(0))
    # Perhaps there are no control groups, or they are not mounted here.
    with contextlib.suppress(OSError, LookupError, ValueError):
        _, limit = cpu_limit(find_group("cpu", proc=proc))
        cores = cores if limit is None else min(cores, int(limit))
    return max(1, cores)


def load_calibration(name: str, directory: Path) -> Calibration | None:
    """The calibration stored under this `file_name`; None where there is none, or it cannot be read."""
    path = directory / name
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_FILE_BYTES:  # a FIFO would be waited for
            return None
        calibration = Calibration.from_dict(read_json(path.read_bytes()))
    except (OSError, ValueError):
        return None
    return calibration if calibration.file_name == name else None
