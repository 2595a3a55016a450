"""How jobs end that end with steps in flight: scripts, and the exit status that each has without jaxobs.

`python -m tests.faults.endings 50` ends each so often, and prints how many had which status; it fails where one had
another than without jaxobs.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.observed import run

BEGIN = """
import atexit, sys, threading, time
EARLY
import jax, jax.numpy as jnp
@jax.jit
def step(w, x):
    for _ in range(6):
        w = w - 1e-6 * (x.T @ jnp.tanh(x @ w))
    return w, jnp.sum(w)
w = x = jnp.ones((768, 768)) * 0.01
def train(step, told=lambda **values: None, turns=lambda items: items, seconds=1.2):
    global w
    until = time.monotonic() + seconds
    for _ in turns(iter(int, 1)):
        w, loss = step(w, x)  # not waited for: many steps are in flight at the end
        told(loss=loss)
        if time.monotonic() > until:
            break
import jaxobs
"""


class Variant(NamedTuple):
    """The end of a script, what comes before `import jax` in it, and the exit status that it has without jaxobs."""

    script: str
    status: int = 0
    early: str = ""
    launched: bool = False
    """Whether it runs under `jaxobs run`."""


VARIANTS: Mapping[str, Variant] = {
    "record": Variant("with jaxobs.instrument() as obs: train(step, obs.record)"),
    "record_ten": Variant(
        "obs = jaxobs.instrument()\n"
        "train(step, lambda loss: obs.record(**{f'loss{number}': loss + number for number in range(10)}))"
    ),
    "watch": Variant("obs = jaxobs.instrument(); train(obs.watch(step))"),
    "all": Variant(
        "with jaxobs.instrument() as obs:\n    train(obs.watch(step), obs.record, obs.steps); obs.snapshot()"
    ),
    "before_jax": Variant("train(obs.watch(step), obs.record)", early="import jaxobs; obs = jaxobs.instrument()"),
    "shutdown": Variant(
        "obs = jaxobs.instrument(); train(obs.watch(step), obs.record); obs.shutdown()\n"
        "train(obs.watch(step), obs.record, seconds=0.1)"
    ),
    "run": Variant("train(step)", launched=True),
    "raises": Variant(
        "with jaxobs.instrument() as obs:\n    train(obs.watch(step), obs.record, obs.steps); raise OSError",
        status=1,
    ),
    "sys_exit": Variant("obs = jaxobs.instrument(); train(step, obs.record); sys.exit(3)", status=3),
    "threads": Variant(
        "obs = jaxobs.instrument()\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "threading.Thread(target=train, args=(obs.watch(step), obs.record)).start()"
    ),
    "instrumented_by_a_thread": Variant(
        "begin = threading.Thread(target=jaxobs.instrument); begin.start(); begin.join()\n"
        "train(step, jaxobs.instrument().record)"
    ),
    "steps_at_exit": Variant(
        "atexit.register(lambda: train(watched, obs.record, obs.steps, seconds=0.1))\n"
        "obs = jaxobs.instrument(); watched = obs.watch(step); train(watched, obs.record)"
    ),
}  # fmt: skip


def status_of(name: str) -> int:
    """The exit status of one run of a variant; negative where a signal ended it.

    -11 is what a job dies of whose arrays are still held by somebody when the interpreter has ended.
    """
    variant = VARIANTS[name]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "script.py")
        file.write_text(BEGIN.replace("EARLY", variant.early) + variant.script)
        return run(file, how="observed" if variant.launched else "plain").status


def main(runs: int) -> int:
    """Print a line a variant."""
    wrong = 0
    with ThreadPoolExecutor(2) as pool:
        for name, variant in VARIANTS.items():
            statuses = Counter(pool.map(status_of, [name] * runs))
            wrong += statuses.total() - statuses[variant.status]
            shown = ", ".join(f"{count} with status {status}" for status, count in sorted(statuses.items()))
            print(f"{name}: {shown}; {variant.status} without jaxobs", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
