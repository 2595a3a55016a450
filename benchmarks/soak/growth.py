"""Whether something grew: what a process held in the last quarter of its time, beside the second quarter."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

MEBIBYTE = 2**20


@dataclass
class Held:
    """What one process held, sample by sample: bytes that it allocated, descriptors, threads."""

    process: psutil.Process
    own_bytes: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)

    def sample(self) -> None:
        """Take one of each."""
        self.own_bytes.append(anonymous_bytes(self.process.pid))
        self.descriptors.append(self.process.num_fds())
        self.threads.append(self.process.num_threads())

    def samples(self) -> dict[str, list[int]]:
        """All of them, by name."""
        return {"own_bytes": self.own_bytes, "descriptors": self.descriptors, "threads": self.threads}

    def __str__(self) -> str:
        return (
            f"{self.own_bytes[-1] / MEBIBYTE:.1f} MiB, {self.descriptors[-1]} descriptors, "
            f"{self.threads[-1]} threads"
        )


def anonymous_bytes(pid: int) -> int:
    """Resident memory that the process allocated itself.

    Not what is its alone (`uss`): pages of a library that it maps become its alone when another program that maps them
    ends. When a test suite beside them ended, that was 2 MiB in the plain job and 5 in the observed one. Raises
    LookupError where the process is gone.
    """
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    raise LookupError(f"process {pid} has no memory, or this kernel does not say how much (Linux 4.5 does)")


def memory_growth(samples: Sequence[int]) -> float:
    """MiB between the medians of two quarters; the first quarter is left out, in which caches fill."""
    second, last = _quarters(samples)
    return (statistics.median(last) - statistics.median(second)) / MEBIBYTE


def count_growth(samples: Sequence[int]) -> int:
    """Between the fewest of two quarters: what is held for a while only is no growth, what is never let go is."""
    second, last = _quarters(samples)
    return min(last) - min(second)


def _quarters(samples: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    quarter = len(samples) // 4
    return samples[quarter : 2 * quarter], samples[-quarter:]
