"""Whether the rank that holds the others up is named, how soon, and whether others are accused.

    python -m benchmarks.lagging_ranks [--faults 18] [--ranks 4] [--print]

A real training of so many processes (jax.distributed, Gloo), of which one is slowed for a while, by each size and in each
way in turn: its loader takes longer, its host computes beside the step, or it is stopped for a part of each tenth of a
second, as by a quota of the processor. Between two of these nobody is slow. What `jaxobs top` shows of the ranks is read
every two seconds. Writes docs/results/lagging_ranks.md, unless it is to --print. Exit status 1 where a rank that is
slowed by 30 % or more is not named within 30 s, or more than one in twenty that are named was not slow.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.beside import free_port, without_settings
from jaxobs.cli.top.servers import Access, target_of
from jaxobs.cli.top.watch import Watch
from jaxobs.report.ranks import rank_rows

PAGE: Final = Path(__file__).parents[1] / "docs" / "results" / "lagging_ranks.md"
PROGRAM: Final = """
import os, sys, time, pathlib, jax, jax.numpy as jnp, numpy as np, jaxobs
rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(os.environ["COORDINATOR"], count, rank)
fault = pathlib.Path(sys.argv[1], f"fault-{rank}")
sharding = jax.sharding.NamedSharding(
    jax.sharding.Mesh(np.array(jax.devices()), ("data",)), jax.sharding.PartitionSpec("data"))
rows = np.ones((32, 128), np.float32)

def wait_if(how):
    told, _, seconds = fault.read_text().partition(" ") if fault.exists() else ("", "", "0")
    end = time.perf_counter() + float(seconds or 0)
    if told == how == "loader": time.sleep(float(seconds))
    while told == how == "host" and time.perf_counter() < end: pass

def batches():
    while True:
        time.sleep(0.03)
        wait_if("loader")
        yield jax.make_array_from_process_local_data(sharding, rows)

with jaxobs.instrument() as obs:
    step = obs.watch(jax.jit(lambda w, x: w - 1e-3 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)))
    w = jnp.eye(128)
    while (address := obs.address) is None: time.sleep(0.1)
    print(address, flush=True)
    for batch in obs.steps(batches()):
        wait_if("host")
        w = step(w, batch).block_until_ready()
"""
SIZES: Final = (0.1, 0.3, 1.0)
WAYS: Final = ("loader", "host", "quota")
SLOW_SECONDS, SLOW_SECONDS_OF_SMALL = 40.0, 120.0
"""For how long a rank is slowed; by a tenth for longer, within which it is to be named."""

CALM_SECONDS: Final = 50.0
"""Between two: the figures of the last half minute have forgotten the one before, and then there are twenty to accuse
somebody in vain."""

FORGOTTEN: Final = 32.0
LOOK_SECONDS: Final = 2.0
IN_TIME: Final = 30.0
QUOTA_PERIOD: Final = 0.1


class Slowed(NamedTuple):
    """What was done to a rank, and what was said meanwhile."""

    way: str
    size: float
    rank: int
    named_after: float | None
    through: str | None
    others: frozenset[int]
    """Other ranks that were named while it was slow."""
    in_vain: frozenset[int]
    """Ranks that were named after it, when nobody was slow any more."""


@contextmanager
def training(folder: Path, ranks: int) -> Iterator[tuple[list[subprocess.Popen[str]], Watch]]:
    """The processes, and what watches them."""
    environment = without_settings() | {
        "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "WORLD_SIZE": str(ranks),
        "COORDINATOR": f"127.0.0.1:{free_port()}", "OTEL_EXPORTER_PROMETHEUS_PORT": "0", "JAXOBS_RUN": "ranks",
    }  # fmt: skip
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, folder],
            env=environment | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        addresses = [process.stdout.readline().strip() for process in processes if process.stdout]
        targets = [target_of(address) for address in addresses]
        watch = Watch(lambda: targets, Access())
        try:
            yield processes, watch
        finally:
            watch.close()
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


class Ranks:
    """The ranks of a training, of which one is slowed at a time."""

    def __init__(self, folder: Path, processes: Sequence[subprocess.Popen[str]], watch: Watch) -> None:
        self._folder, self._processes, self._watch = folder, processes, watch

    def step_seconds(self) -> float:
        """The median over the ranks."""
        self._watch.refresh(LOOK_SECONDS)
        rows = rank_rows([rank.observed for rank in self._watch.ranks])
        return float(statistics.median(row["step_seconds"] for row in rows))

    def slow(self, way: str, size: float, rank: int, usual: float) -> Slowed:
        """Slow a rank for a while, and leave it in peace for another."""
        file = self._folder / f"fault-{rank}"
        if way != "quota":
            file.write_text(f"{way} {size * usual}")
        began, named, through = time.monotonic(), None, None
        others: set[int] = set()
        lasting = SLOW_SECONDS_OF_SMALL if size < SIZES[1] else SLOW_SECONDS
        while (after := time.monotonic() - began) < lasting:
            for one, why in self._lagging(self._processes[rank], size if way == "quota" else 0.0):
                if one != rank:
                    others.add(one)
                elif named is None:
                    named, through = after, why
        file.unlink(missing_ok=True)
        ended, in_vain = time.monotonic(), set[int]()
        while (after := time.monotonic() - ended) < CALM_SECONDS:
            found = self._lagging(self._processes[rank], 0.0)
            in_vain |= {one for one, _ in found if after > FORGOTTEN}
        return Slowed(way, size, rank, named, through, frozenset(others), frozenset(in_vain))

    def _lagging(self, process: subprocess.Popen[str], stopped: float) -> list[tuple[int, str | None]]:
        """The ranks that are named some seconds from now, with what through. `stopped` as a share of what is left."""
        until = time.monotonic() + LOOK_SECONDS
        while time.monotonic() < until:
            if stopped:
                process.send_signal(signal.SIGSTOP)
                time.sleep(QUOTA_PERIOD * stopped / (1 + stopped))
                process.send_signal(signal.SIGCONT)
            time.sleep(QUOTA_PERIOD / (1 + stopped))
        self._watch.refresh(LOOK_SECONDS / 4)
        rows = rank_rows([rank.observed for rank in self._watch.ranks])
        return [(row["rank"], row["through"]) for row in rows if row["lags"]]


HEAD: Final = """# A rank that lags

Whether [the rank that holds the others up](../questions/rank.md) is named. `python -m benchmarks.lagging_ranks` writes
this page: {ranks} processes of one training (Gloo, steps of {usual:.0f} ms) on {processors} processors of a CPU with JAX
{jax}, of which one is slowed for {lasting:.0f} s, or {small:.0f} s where it is by a tenth.

One that is slowed by a tenth costs the others less than the tenth of their time from which on a rank is marked. Of one
that is stopped now and then, as by a quota of the processor, what it sleeps goes on meanwhile: it loses less than that.

Of {large} that were slowed by 30 % or more **{found} were named within {in_time:.0f} s**. Of {named} ranks that were
named {right} were slow, and in {calm} times of calm after them somebody was named {in_vain} times.

| slowed by | in its | named | after, median | told as |
|---|---|---|---|---|
"""


def page(slowed: Sequence[Slowed], ranks: int, usual: float) -> str:
    """The results, as the page shows them."""
    large = [each for each in slowed if each.size >= SIZES[1]]
    right = sum(each.named_after is not None for each in slowed)
    head = HEAD.format(
        ranks=ranks, usual=1e3 * usual, processors=os.cpu_count(), jax=version("jax"), lasting=SLOW_SECONDS,
        small=SLOW_SECONDS_OF_SMALL, large=len(large), found=sum(map(in_time, large)), in_time=IN_TIME,
        named=right + accused(slowed), right=right, calm=len(slowed),
        in_vain=sum(len(each.in_vain) for each in slowed),
    )  # fmt: skip
    rows = ""
    for size in SIZES:
        for way in WAYS:
            alike = [each for each in slowed if (each.way, each.size) == (way, size)]
            after = [each.named_after for each in alike if each.named_after is not None]
            told = ", ".join(sorted({each.through or "–" for each in alike if each.named_after is not None}))
            middle = f"{statistics.median(after):.0f} s" if after else "–"
            rows += f"| {size:.0%} | {way} | {len(after)} of {len(alike)} | {middle} | {told or '–'} |\n"
    return head + rows


def in_time(each: Slowed) -> bool:
    """Whether the rank was named as soon as it must be."""
    return each.named_after is not None and each.named_after <= IN_TIME


def accused(slowed: Sequence[Slowed]) -> int:
    """How many ranks were named that were not slow."""
    return sum(len(each.others) + len(each.in_vain) for each in slowed)


def main() -> int:
    """Slow ranks, look, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=18)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    chance = random.Random(0)
    slowed: list[Slowed] = []
    with tempfile.TemporaryDirectory(prefix="ranks-") as name:
        folder = Path(name)
        with training(folder, options.ranks) as (processes, watch):
            ranks = Ranks(folder, processes, watch)
            time.sleep(CALM_SECONDS)
            usual = ranks.step_seconds()
            for number in range(options.faults):
                way, size = WAYS[number % len(WAYS)], SIZES[number // len(WAYS) % len(SIZES)]
                slowed.append(ranks.slow(way, size, chance.randrange(options.ranks), usual))
                print(slowed[-1], file=sys.stderr, flush=True)
    text = page(slowed, options.ranks, usual)
    print(text)
    if not options.print:
        PAGE.write_text(text, encoding="utf-8")
    right = sum(each.named_after is not None for each in slowed)
    precise = accused(slowed) <= 0.05 * (right + accused(slowed))
    return int(not (precise and all(in_time(each) for each in slowed if each.size >= SIZES[1])))


if __name__ == "__main__":
    sys.exit(main())
