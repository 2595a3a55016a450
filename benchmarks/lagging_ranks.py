"""Whether the rank that holds the others up is named, how soon, and whether others are accused.

    python -m benchmarks.lagging_ranks [--faults 18] [--ranks 4]

A real training of so many processes (jax.distributed, Gloo), of which one is slowed for a while, by each size and in each
way in turn: its loader takes longer, its host computes beside the step, or it is stopped for a part of each tenth of a
second, as by a quota of the processor. Between two of these nobody is slow. What `jaxobs top` shows of the ranks is read
every two seconds. Exit status 1 where a rank that is slowed by 30 % or more is not named within 30 s, or more than one
in twenty that are named was not slow.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.truths import Figure, Table, options_of
from jaxobs.cli.top.servers import Access, target_of
from jaxobs.cli.top.watch import Watch
from jaxobs.report.ranks import rank_rows
from tests.top.ranks import INPUT_SECONDS, Job, started
from tests.waiting import wait_for

SIZES: Final = (0.1, 0.3, 1.0)
WAYS: Final = ("input", "host", "quota")
SLOW_SECONDS, SLOW_SECONDS_OF_SMALL = 40.0, 120.0
"""For how long a rank is slowed; by a tenth for longer, within which it is to be named."""

CALM_SECONDS: Final = 50.0
"""Between two: the figures of the last half minute have forgotten the one before, and then there are twenty to accuse
somebody in vain."""

FORGOTTEN: Final = 32.0
LOOK_SECONDS: Final = 2.0
IN_TIME: Final = 30.0
QUOTA_PERIOD: Final = 0.1


class Ranks:
    """The ranks of a training, of which one is slowed at a time."""

    def __init__(self, job: Job, watch: Watch) -> None:
        self._folder, self._processes, self._watch = job.folder, job.processes, watch
        self.named = self.accused = 0
        """How many times the rank that was slow was named, and how many others were."""

    def step_seconds(self) -> float:
        """The median over the ranks, once each has one."""

        def known() -> list[float]:
            found = [row["step_seconds"] for row in rows_of(self._watch)]
            return [] if None in found else found

        found = wait_for(known, "the step time of each rank", CALM_SECONDS)
        return float(statistics.median(found))

    def slow(self, way: str, size: float, rank: int, usual: float) -> Figure:
        """Slow a rank for a while, leave it in peace for another, and say after how long it was named."""
        file = self._folder / f"{way}-{rank}"
        file.write_text(f"{size * usual + (INPUT_SECONDS if way == 'input' else 0.0)}")
        began, found, through = time.monotonic(), None, None
        others: set[int] = set()
        lasting = SLOW_SECONDS_OF_SMALL if size < SIZES[1] else SLOW_SECONDS
        while (after := time.monotonic() - began) < lasting:
            for one, why in self._lagging(self._processes[rank], size if way == "quota" else 0.0):
                if one != rank:
                    others.add(one)
                elif found is None:
                    found, through = after, why
        file.unlink()
        ended, in_vain = time.monotonic(), set[int]()
        while (after := time.monotonic() - ended) < CALM_SECONDS:
            lagging = self._lagging(self._processes[rank], 0.0)
            in_vain |= {one for one, _ in lagging if after > FORGOTTEN}
        self.named += found is not None
        self.accused += len(others) + len(in_vain)
        note = f"told as {through}; others: {sorted(others) or 'none'}, after it: {sorted(in_vain) or 'none'}"
        if size < SIZES[1]:
            return Figure("named after", found, unit="s", note=note)
        return Figure(
            "named after", found or f"{lasting:.0f} s: not", between=(0.0, IN_TIME), unit="s", note=note
        )

    def _lagging(self, process: subprocess.Popen[str], stopped: float) -> list[tuple[int, str | None]]:
        """The ranks that are named some seconds from now, with what through. `stopped` as a share of what is left."""
        until = time.monotonic() + LOOK_SECONDS
        while time.monotonic() < until:
            if stopped:
                process.send_signal(signal.SIGSTOP)
                time.sleep(QUOTA_PERIOD * stopped / (1 + stopped))
                process.send_signal(signal.SIGCONT)
            time.sleep(QUOTA_PERIOD / (1 + stopped))
        return [
            (row["rank"], row["through"]) for row in rows_of(self._watch, LOOK_SECONDS / 4) if row["lags"]
        ]


def rows_of(watch: Watch, seconds: float = LOOK_SECONDS) -> list[dict[str, Any]]:
    """What `jaxobs top` shows of each rank now, after so many seconds for its answer."""
    watch.refresh(seconds)
    return rank_rows([rank.observed for rank in watch.ranks])


@contextmanager
def watched_training(ranks: int) -> Iterator[tuple[Job, Watch]]:
    """A training of so many ranks, which keeps their runs in its folder, and what `jaxobs top` sees of it."""
    with tempfile.TemporaryDirectory(prefix="ranks-") as name, ExitStack() as at_the_end:
        folder, runs = Path(name), Path(name, "runs")
        runs.mkdir()
        (folder / "waits").touch()
        job = started(folder, ranks, 86_400, JAXOBS_RUN_DIRECTORY=str(runs))
        at_the_end.callback(job.end)
        targets = [target_of(address) for address in job.addresses]
        watch = Watch(lambda: targets, Access())
        at_the_end.callback(watch.close)
        yield job, watch


def main() -> int:
    """Slow ranks, look, judge."""
    parser = options_of(__doc__, only=False)
    parser.add_argument("--faults", type=int, default=18)
    parser.add_argument("--ranks", type=int, default=4)
    options = parser.parse_args()
    chance, table = random.Random(0), Table()
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    with watched_training(options.ranks) as (job, watch):
        ranks = Ranks(job, watch)
        time.sleep(CALM_SECONDS)
        usual = ranks.step_seconds()
        table.add("nobody is slow", [Figure("step", usual, unit="s")])
        for number in range(options.faults):
            way, size = WAYS[number % len(WAYS)], SIZES[number // len(WAYS) % len(SIZES)]
            found = ranks.slow(way, size, chance.randrange(options.ranks), usual)
            table.add(f"slower by {size:.0%} in its {way}", [found])
    most, said = 0.05 * (ranks.named + ranks.accused), f"{ranks.named} that were slow were named"
    table.add("all", [Figure("named that were not slow", ranks.accused, between=(0, most), note=said)])
    return table.status()


if __name__ == "__main__":
    sys.exit(main())
