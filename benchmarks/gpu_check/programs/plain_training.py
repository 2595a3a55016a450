"""A training script that knows nothing of jaxobs: `python plain_training.py large|small SECONDS`.

Its last line tells its step time by its own clock, its FLOPs by formula, and when it ended.
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks.gpu_check.transformer import LARGE, SMALL, batch_of, start

LOOKS_EVERY = 10


def main() -> None:
    """Train for so long."""
    shape = LARGE if sys.argv[1] == "large" else SMALL
    batch = batch_of(shape, 0)
    step, state, attention, _ = start(shape, "cudnn" if sys.argv[1] == "large" else "xla", batch)
    began = time.perf_counter()
    marks = [(0, began)]
    number = 0
    while marks[-1][1] < began + float(sys.argv[2]):
        state, loss = step(state, batch)
        number += 1
        if number % LOOKS_EVERY == 0:
            loss.block_until_ready()
            marks.append((number, time.perf_counter()))
    first, last = marks[len(marks) // 2], marks[-1]
    truth = {
        "step_seconds": (last[1] - first[1]) / max(1, last[0] - first[0]),
        "model_flops": shape.model_flops(attention),
        "ended": time.time(),
    }
    print(json.dumps({"truth": truth}), flush=True)


if __name__ == "__main__":
    main()
