"""Whether W&B, MLflow, Aim and TensorBoard keep what `obs.values()` gives them: the real libraries, offline.

    python -m tests.programs.trackers

Exit status 1 where one of them keeps another value, or the run has not the name that the tracker's variable gives it.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile

from benchmarks.truths import Figure, Table
from tests.programs.catalogue import ROOT, SUITE

NAMES = {"WANDB_NAME": "by-wandb", "MLFLOW_RUN_NAME": "by-mlflow"}
OFFLINE = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "MLFLOW_ALLOW_FILE_STORE": "true"}
PYTHON = ROOT / ".venv-programs" / "bin" / "python"


def kept(folder: str) -> dict[str, dict[str, float]]:
    """What the program printed of its end."""
    environment = {**os.environ, **OFFLINE, **NAMES, "PYTHONPATH": str(ROOT), "JAXOBS_RUN_DIRECTORY": folder}
    command = [str(PYTHON), str(SUITE / "trackers.py"), folder]
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    found: dict[str, dict[str, float]] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Train, compare, print."""
    with tempfile.TemporaryDirectory() as folder:
        found = kept(folder)
    table, given = Table(), found["given"]
    for tracker in ("wandb", "mlflow", "aim", "tensorboard"):
        own = found[tracker]
        right = [name for name in given if name in own and math.isclose(own[name], given[name], rel_tol=1e-6)]
        table.add(tracker, [Figure("values kept", len(right), len(given))])
    note = "WANDB_NAME comes before MLFLOW_RUN_NAME"
    table.add("jaxobs", [Figure("run", str(found["run"]), NAMES["WANDB_NAME"], note=note)])
    return table.status()


if __name__ == "__main__":
    sys.exit(main())
