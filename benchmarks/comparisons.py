"""Make pairs of runs for real and print what is said of each: `python -m benchmarks.comparisons [--only NAME,…]`.

Each pair is two runs of a small training, each `--seconds` long, one after the other: the same program twice (ten times),
a larger model, a slower loader, float32 for bfloat16, recompiles, another batch size. Exit status 1: a cause was not
named, one was invented, or the step time of the same program was told to differ, as it may on a machine that others use.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.observed import run
from benchmarks.truths import Figure, Table, chosen, options_of
from jaxobs.cli.show import read_record
from jaxobs.report.comparison import Cause, compare, relative
from jaxobs.report.record import Record
from tests.waiting import wait_for

LAYERS = 3


@dataclass(frozen=True)
class Pair:
    """What the second run has otherwise, and the cause that must be named; None where nothing differs."""

    name: str
    cause: Cause | None = None
    changed: dict[str, str] = field(default_factory=dict)
    both: dict[str, str] = field(default_factory=dict)


PAIRS = (
    *(Pair(f"same_{number}") for number in range(1, 11)),
    Pair("larger_model", "model", {"WIDTH": "512"}),
    Pair("slower_loader", "input", {"WAIT": "0.01"}),
    Pair("float32_for_bfloat16", "precision", {"DTYPE": "float32"}, {"DTYPE": "bfloat16"}),
    Pair("extra_recompiles", "recompile", {"SHAPES": "4"}),
    Pair("another_batch_size", "batch", {"BATCH": "256"}),
)


def train(seconds: float, settings: Mapping[str, str]) -> None:
    """A small training whose every part can be made slower."""
    import jax.numpy as jnp
    import numpy as np

    import jaxobs
    from tests.layered_job import train_step_of

    width, rows = int(settings.get("WIDTH", "384")), int(settings.get("BATCH", "128"))
    dtype = settings.get("DTYPE", "float32")

    def batches() -> Iterator[Any]:
        """The same one again and again; every hundredth has one of the other shapes, if there are some."""
        whole = np.random.default_rng(0).standard_normal((rows, width), dtype=np.float32)
        batch = jnp.asarray(whole, dtype)
        others = [batch[: rows - 1 - number] for number in range(int(settings.get("SHAPES", "1")) - 1)]
        end, turn = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            time.sleep(float(settings.get("WAIT", "0")))
            turn += 1
            yield others.pop() if others and turn % 100 == 0 else batch

    weights = [jnp.full((width, width), 0.01, dtype) for _ in range(LAYERS)]
    with jaxobs.instrument() as obs:
        step = obs.watch(train_step_of(0.01))
        for batch in obs.steps(batches(), examples=rows):
            weights, value = step(weights, batch)
            value.block_until_ready()


def record_of(folder: Path, seconds: float, settings: Mapping[str, str]) -> Record:
    """That of one run."""
    words = ("--train", str(seconds), *(f"{name}={value}" for name, value in settings.items()))
    environment = {"JAXOBS_RUN_DIRECTORY": str(folder)}
    ended = run(Path(__file__), *words, how="plain", timeout=seconds + 120, environment=environment)
    if ended.status:
        raise SystemExit(f"a training ended with status {ended.status}: {ended.stderr[-500:]}")
    # The job's end waits for its agent only for a moment.
    wait_for(lambda: read_record(str(folder)).content["state"] != "running", "the end in the record")
    return read_record(str(folder))


def judged(pair: Pair, before: Record, after: Record) -> list[Figure]:
    """What is said of a pair, beside what is so."""
    comparison = compare(before, after)
    causes = {each.cause for each in comparison.differences}
    told = comparison.step_times[0]
    change = "too few stretches" if told.change is None else f"{relative(told.change)}: {told.verdict}"
    note = f"step time {change}"
    named = ", ".join(sorted(map(str, causes))) or "none"
    if pair.cause is not None:
        return [Figure("causes", named, named if pair.cause in causes else str(pair.cause), note=note)]
    calm = told.verdict in {"within the noise", "cannot be told"}
    return [Figure("invented", named, "none", note=note), Figure("the same step time", calm, True)]


def main() -> int:
    """Print what is said of each pair as it is made; the exit status."""
    if sys.argv[1:2] == ["--train"]:
        train(float(sys.argv[2]), dict(word.split("=") for word in sys.argv[3:]))
        return 0
    parser = options_of(__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    table = Table()
    for pair in chosen(options.only, ((pair.name, pair) for pair in PAIRS)):
        with tempfile.TemporaryDirectory() as place:
            before = record_of(Path(place, "a"), options.seconds, pair.both)
            after = record_of(Path(place, "b"), options.seconds, pair.both | pair.changed)
            table.add(pair.name, judged(pair, before, after))
    return table.status()


if __name__ == "__main__":
    sys.exit(main())
