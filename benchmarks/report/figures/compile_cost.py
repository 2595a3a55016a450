"""What jaxobs adds to a compile: `make benchmark NAME=compile_cost`.

Whole compiles in a process with jaxobs beside compiles in processes without; then, in one process, the seconds that the
probe `compile` spends on the compiling thread (its guard measures all of its hooks from outside) over those from the
beginning of the trace to the end of the backend's compile; then the part of it that says why a function was compiled
again, for trees of one array to thousands: each is compiled for nine shapes, so that the last ones are compared with as
many signatures as are kept.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.paired import Interval, median, paired_difference, paired_ratio
from benchmarks.report.results import Cell, Demand, Measured, Section, Table
from benchmarks.report.turns import Asked, answer, take_turns

ALLOWED = 0.03
LONG_SECONDS = 0.1
LAYERS = (1, 4, 16)
ROUNDS = 9
LEAVES = (1, 100, 1000)
SHAPES, COMPARED, TREES = 9, 5, 3
"""Of the nine compiles of each tree the last five, which are compared with most signatures."""

_WHOLE = f"""From the beginning of the trace to the end of the backend's compile of a gradient of so many layers,
{ROUNDS} rounds; three processes take turns, one with jaxobs, two without. Every compile is of a new program. What the
agent does with the module afterwards falls into the other processes' turns as well as into its own."""

_SHARE = """The seconds that jaxobs spends on the compiling thread, as a share of the same compile: sharper than the
difference of whole compiles, and blind to what other threads hold up."""

_CAUSES = f"""Of them, the seconds that it takes to say why a function was compiled again, for a tree of so many
arrays that is compiled for {SHAPES} shapes; the last {COMPARED} of them, of {TREES} such functions."""


class Timed:
    """Calls an object's methods and adds up their time."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*args: Any) -> Any:
            started = time.perf_counter()
            try:
                return method(*args)
            finally:
                self.seconds += time.perf_counter() - started

        return call


def measure() -> Section:
    """Three tables; a compile of at least a tenth of a second may take 3 % longer."""
    with contextlib.ExitStack() as opened:
        compilers = {
            how: opened.enter_context(Asked(__name__, how.partition(" ")[0]))
            for how in ("plain", "plain again", "jaxobs")
        }
        asked: dict[tuple[str, int], Callable[[], list[float]]] = {
            (how, layers): partial(compiler.ask, layers)
            for how, compiler in compilers.items()
            for layers in LAYERS
        }
        take_turns(asked, 1)  # the first is slower
        found = take_turns(asked, ROUNDS)
        causes: dict[str, list[list[float]]] = compilers["jaxobs"].ask("causes")
    whole: list[list[Cell]] = []
    shares: list[list[Cell]] = []
    worst = 0.0
    for layers in LAYERS:
        without, again, observed = (
            [took for took, _ in found[how, layers]] for how in ("plain", "plain again", "jaxobs")
        )
        spent = [seconds for _, seconds in found["jaxobs", layers]]
        share = paired_ratio(spent, observed)
        ratios = (paired_ratio(observed, without), paired_ratio(again, without))
        more = Measured(paired_difference(observed, without), "s")
        whole.append([str(layers), Measured(median(without), "s"), more, *map(Measured, ratios)])
        shares.append(
            [str(layers), Measured(median(observed), "s"), Measured(median(spent), "s"), _percent(share)]
        )
        worst = max(worst, share.middle if median(observed).middle >= LONG_SECONDS else 0.0)
    tables = [
        Table(
            "Whole compiles",
            _WHOLE,
            ("layers", "without", "more with jaxobs", "with / without", "control"),
            whole,
        ),
        Table("On the compiling thread", _SHARE, ("layers", "compile", "jaxobs", "share"), shares),
        Table(
            "Why it was compiled again", _CAUSES, ("arrays", "compile", "cause", "share"), _cause_rows(causes)
        ),
    ]
    worst = max(worst, *(_share_of_long(pairs) for pairs in causes.values()))
    demand = f"at most {100 * ALLOWED:g} % of a compile of {LONG_SECONDS:g} s or more is jaxobs on the compiling thread"
    return Section("Compiling", tables, [Demand(f"{demand}: {100 * worst:.2f} %", worst <= ALLOWED)])


def _cause_rows(causes: dict[str, list[list[float]]]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for leaves, pairs in causes.items():
        took, spent = zip(*pairs, strict=True)
        rows.append(
            [
                leaves,
                Measured(median(took), "s"),
                Measured(median(spent), "s"),
                _percent(paired_ratio(spent, took)),
            ]
        )
    return rows


def _share_of_long(pairs: list[list[float]]) -> float:
    took, spent = zip(*pairs, strict=True)
    return paired_ratio(spent, took).middle if median(took).middle >= LONG_SECONDS else 0.0


def _percent(share: Interval) -> Measured:
    return Measured(share.times(100), "%")


def compile_probe(observer: Any) -> Any:
    """The probe `compile` with its guard, as the observer keeps them."""
    (source,) = [source for source in observer._side.sources if source.guard.source == "compile"]  # noqa: SLF001
    return source


def compile_as_asked(how: str) -> None:
    """Answer each number of layers with the seconds of a compile and of jaxobs in it. Runs in a process of its own."""
    import jax
    import jax.numpy as jnp

    observer: Any = None
    if how == "jaxobs":
        import jaxobs

        observer = jaxobs.instrument()
        guard = compile_probe(observer).guard
    operands = (jnp.ones((64, 64)), jnp.ones((16, 64)))
    for number, line in enumerate(sys.stdin):
        if line.strip() == "causes":
            answer(
                {
                    leaves: [pair for _ in range(TREES) for pair in _causes(observer, leaves)]
                    for leaves in LEAVES
                }
            )
            continue
        layers = int(line)

        def stack(weights: Any, x: Any, layers: int = layers, number: int = number) -> Any:
            for layer in range(layers):
                x = jnp.tanh(x @ weights) + jnp.sin(x * (layer + 1 + number / 1000)) @ weights.T
            return x.sum()

        before = guard.report().seconds if observer else 0.0
        began = time.perf_counter()
        jax.jit(jax.grad(stack)).lower(*operands).compile()
        took = time.perf_counter() - began
        answer((took, guard.report().seconds - before if observer else 0.0))


def _causes(observer: Any, leaves: int) -> list[tuple[float, float]]:
    """Seconds of each of the last compiles, and of the cause in it."""
    import jax
    import jax.numpy as jnp

    probe: Any = compile_probe(observer).plugin
    inner = probe._causes  # noqa: SLF001
    probe._causes = timed = Timed(inner)  # noqa: SLF001
    function = jax.jit(lambda tree: [leaf * 2 for leaf in tree.values()])
    found = []
    for size in range(1, SHAPES + 1):
        tree = dict.fromkeys((f"layer_{number}" for number in range(leaves)), jnp.ones(size))
        timed.seconds = 0.0
        began = time.perf_counter()
        function.lower(tree).compile()
        found.append((time.perf_counter() - began, timed.seconds))
    probe._causes = inner  # noqa: SLF001
    return found[-COMPARED:]


if __name__ == "__main__":
    compile_as_asked(sys.argv[1])
