"""A training script that knows nothing of jaxobs: `python plain_training.py large|small SECONDS`.

Its last line tells its step time by its own clock, its FLOPs by formula, and when it ended.
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks.gpu_check.transformer import LARGE, SMALL, batch_of, start, train
from benchmarks.untrue.programs.truth import until


def main() -> None:
    """Train for so long."""
    shape = LARGE if sys.argv[1] == "large" else SMALL
    batch = batch_of(shape, 0)
    step, state, attention, _ = start(shape, "cudnn" if sys.argv[1] == "large" else "xla", batch)
    _, step_seconds = train(step, state, batch, until(float(sys.argv[2])))
    flops = shape.model_flops(attention)
    truth = {"step_seconds": step_seconds, "model_flops": flops, "ended": time.time()}
    print(json.dumps({"truth": truth}), flush=True)


if __name__ == "__main__":
    main()
