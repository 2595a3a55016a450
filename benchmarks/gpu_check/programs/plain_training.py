"""A training script that takes nothing of jaxobs but the model: `python plain_training.py large|small SECONDS`.

Its last line tells its step time by its own clock, its FLOPs by formula, and when it ended.
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks.gpu_check.transformer import LARGE, SMALL, batch_of, model_flops, started, train
from benchmarks.programs.truth import until
from jaxobs.cli.demonstration import train_step


def main() -> None:
    """Train for so long."""
    size = LARGE if sys.argv[1] == "large" else SMALL
    batch = batch_of(size)
    _, step_seconds = train(train_step, started(size, batch), batch, size, until(float(sys.argv[2])))
    truth = {"step_seconds": step_seconds, "model_flops": model_flops(size), "ended": time.time()}
    print(json.dumps({"truth": truth}), flush=True)


if __name__ == "__main__":
    main()
