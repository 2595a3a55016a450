"""One check as a process: `python -m benchmarks.gpu_check.worker NAME FOLDER PLATFORM DEVICE_KIND`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.gpu_check.figures import Findings


def main() -> None:
    """Run it; what it raises ends the process, and its traceback is the end of the log."""
    name, folder, platform, device_kind = sys.argv[1:]
    module = importlib.import_module(f"benchmarks.gpu_check.checks.{name}")
    module.check(Findings(name, Path(folder), platform, device_kind))


if __name__ == "__main__":
    main()
