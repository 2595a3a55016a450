"""What jaxobs adds to a compile: `make benchmark NAME=compile_cost`.

Whole compiles in a process with jaxobs beside compiles in processes without; then, in one process, the seconds that the
probe `compile` spends on the compiling thread (its guard measures all of its hooks from outside) over those from the
beginning of the trace to the end of the backend's compile; then the same of functions that are compiled again, for trees
of one array to thousands, so that it is said why: each is compiled for nine shapes, so that the last ones are compared
with as many signatures as are kept.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.costs.processes import Asked, answer
from benchmarks.costs.sections import Cell, Demand, Section, Table, middle, more, percent, ratio
from benchmarks.paired import median, paired_ratio, take_turns

ALLOWED = 0.03
LONG_SECONDS = 0.1
LAYERS = (1, 4, 16)
ROUNDS = 9
LEAVES = (1, 100, 1000)
SHAPES, COMPARED, TREES = 9, 5, 3
"""Of the nine compiles of each tree the last five, which are compared with most signatures."""

_WHOLE = f"""From the beginning of the trace to the end of the backend's compile of a gradient of so many layers,
{ROUNDS} rounds, in three processes that take turns. The agent's work afterwards falls into the turns of all."""

_SHARE = """The seconds that jaxobs spends on the compiling thread, as a share of the same compile."""

_CAUSES = f"""The same, of saying why a function was compiled again, for a tree of so many arrays and {SHAPES} shapes; the
last {COMPARED} of them, of {TREES} such functions."""

Compile = tuple[float, float]
"""Its seconds, and those of jaxobs on its thread."""


def measure() -> Section:
    """Three tables; a compile of at least a tenth of a second may take 3 % longer."""
    with contextlib.ExitStack() as opened:
        compilers = {
            how: opened.enter_context(Asked(__name__, how.partition(" ")[0]))
            for how in ("plain", "plain again", "jaxobs")
        }
        asked: dict[tuple[str, int], Callable[[], Compile]] = {
            (how, layers): partial(compiler.ask, layers)
            for how, compiler in compilers.items()
            for layers in LAYERS
        }
        take_turns(asked, 1)  # the first is slower
        found = take_turns(asked, ROUNDS)
        causes: dict[str, list[Compile]] = compilers["jaxobs"].ask("causes")
    whole: list[list[Cell]] = []
    for layers in LAYERS:
        plain, again, observed = (
            [took for took, _ in found[how, layers]] for how in ("plain", "plain again", "jaxobs")
        )
        whole.append(
            [str(layers), middle(plain), more(observed, plain), ratio(observed, plain), ratio(again, plain)]
        )
    shares = {str(layers): found["jaxobs", layers] for layers in LAYERS}
    tables = [
        Table(
            "Whole compiles",
            _WHOLE,
            ("layers", "without", "more with jaxobs", "with / without", "control"),
            whole,
        ),
        Table("On the compiling thread", _SHARE, ("layers", "compile", "jaxobs", "share"), _rows(shares)),
        Table("Why it was compiled again", _CAUSES, ("arrays", "compile", "jaxobs", "share"), _rows(causes)),
    ]
    worst = max(_share_if_long(compiles) for compiles in (*shares.values(), *causes.values()))
    demand = f"at most {100 * ALLOWED:g} % of a compile of {LONG_SECONDS:g} s or more is jaxobs on the compiling thread"
    return Section("Compiling", tables, [Demand(f"{demand}: {100 * worst:.2f} %", worst <= ALLOWED)])


def _rows(compiles: dict[str, list[Compile]]) -> list[list[Cell]]:
    found: list[list[Cell]] = []
    for name, pairs in compiles.items():
        took, spent = zip(*pairs, strict=True)
        found.append([name, middle(took), middle(spent), percent(spent, took)])
    return found


def _share_if_long(compiles: list[Compile]) -> float:
    took, spent = zip(*compiles, strict=True)
    return paired_ratio(spent, took).middle if median(took).middle >= LONG_SECONDS else 0.0


def compile_as_asked(how: str) -> None:
    """Answer each number of layers with a compile, and `causes` with those of trees. Runs in a process of its own."""
    import jax  # noqa: F401  # where it is, probes are at once

    spent: Callable[[], float] = float
    if how == "jaxobs":
        import jaxobs

        sources = jaxobs.instrument()._side.sources  # noqa: SLF001  # the guards count the seconds of probes
        (guard,) = [source.guard for source in sources if source.guard.source == "compile"]
        spent = lambda: guard.report().seconds  # noqa: E731

    def timed(lower: Callable[[], Any]) -> Compile:
        before, began = spent(), time.perf_counter()
        lower().compile()
        return time.perf_counter() - began, spent() - before

    for number, line in enumerate(sys.stdin):
        if line.strip() == "causes":
            answer(
                {leaves: [one for _ in range(TREES) for one in _trees(timed, leaves)] for leaves in LEAVES}
            )
        else:
            answer(timed(_layers(int(line), number)))


def _layers(layers: int, number: int) -> Callable[[], Any]:
    """A new program of so many layers."""
    import jax
    import jax.numpy as jnp

    def stack(weights: Any, x: Any) -> Any:
        for layer in range(layers):
            x = jnp.tanh(x @ weights) + jnp.sin(x * (layer + 1 + number / 1000)) @ weights.T
        return x.sum()

    operands = (jnp.ones((64, 64)), jnp.ones((16, 64)))
    return lambda: jax.jit(jax.grad(stack)).lower(*operands)


def _trees(timed: Callable[[Callable[[], Any]], Compile], leaves: int) -> list[Compile]:
    import jax
    import jax.numpy as jnp

    function = jax.jit(lambda tree: [leaf * 2 for leaf in tree.values()])
    names = [f"layer_{number}" for number in range(leaves)]
    trees = [dict.fromkeys(names, jnp.ones(size)) for size in range(1, SHAPES + 1)]
    return [timed(partial(function.lower, tree)) for tree in trees][-COMPARED:]


if __name__ == "__main__":
    compile_as_asked(sys.argv[1])
