"""Advice in a real process: what is wrong with it is told, with its cause and a number that is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.derive.advice import documents
from tests.end_to_end.training import Training

Start = Callable[..., Training]


def advice_of(document: dict[str, Any], condition: str) -> dict[str, Any]:
    """The one piece of that condition."""
    told: list[dict[str, Any]] = [piece for piece in document["advice"] if piece["condition"] == condition]
    loops = {name: loop["bottleneck"] for name, loop in document["loops"].items()}
    assert len(told) == 1, (document["advice"], loops)
    return told[0]


SLOW_LOADER = """
@jax.jit
def work(x):
    return jax.lax.fori_loop(0, 40, lambda i, y: jnp.tanh(y @ y), x).sum()

def loader():
    for _ in range(100):
        time.sleep(3 * max(taken, 0.02))  # by the newest run: so much longer on a loaded machine, too
        yield jnp.full((160, 160), 0.01)  # runs of milliseconds: shorter ones are not timed from outside

with jaxobs.instrument() as obs:
    work, taken = obs.watch(work), 0.0
    float(work(jnp.full((160, 160), 0.01)))  # compiled outside the loop, whose label is to be clear
    for batch in obs.steps(loader()):
        begun = time.monotonic()
        float(work(batch))
        taken = time.monotonic() - begun
    time.sleep(0.5)
    say(document=obs.snapshot(60).to_dict())
    wait()
"""


def test_a_loop_that_waits_for_its_input_is_told_to_load_ahead(start_training: Start) -> None:
    peaks = {"JAXOBS_PEAK_FLOPS": '{"float32": 1e11}', "JAXOBS_PEAK_BYTES_PER_SECOND": "1e10"}
    training = start_training(SLOW_LOADER, **peaks)
    document = training.hear()["document"]
    piece = advice_of(document, "input_wait")
    waiting = document["loops"]["train"]["bottleneck"]["shares"]["input"]
    assert piece["loop"] == "train"
    assert piece["saves_ratio"] == pytest.approx(waiting)
    assert "background thread" in piece["remedy"]
    assert "make the loader faster" in piece["remedy"], "it takes longer than the rest of the step"
    assert training.end() == 0, training.errors()


MANY_SHAPES = """
@jax.jit
def train_on(weights, batch):
    return jnp.tanh(batch @ weights).sum()

with jaxobs.instrument() as obs:
    for size in obs.steps(range(1, 21)):
        train_on(jnp.ones((8, 8)), jnp.ones((size, 8)))
    time.sleep(0.5)
    say(document=obs.snapshot(60).to_dict())
    wait()
"""


def test_a_function_compiled_for_each_shape_is_told_which_argument_to_pad(start_training: Start) -> None:
    training = start_training(MANY_SHAPES)
    document = training.hear()["document"]
    piece = advice_of(document, "recompilation")
    assert piece["function"] == "train_on"
    assert "19 times" in piece["sentence"]
    assert "the shape of `batch` changed" in piece["sentence"]
    assert "pad `batch`" in piece["remedy"].lower()
    rows = document["functions"]["train_on"]["recompilations"]
    here = (".functions", ".process")
    relied_on = {key for key in documents.keys(documents.everything_wrong()) if key.startswith(here)}
    assert relied_on - documents.keys(document) == set()
    spent = sum(row["seconds"] for row in rows if row["argument"] == "batch")
    assert piece["saves_ratio"] == pytest.approx(spent / document["process"]["seconds"])
    assert training.end() == 0, training.errors()


SLOW_COMPILES = """
def compile_something(number, turns):
    def slow(x):
        for turn in range(turns):
            x = jnp.sort(jnp.sin(x) + turn + number)
        return x
    began = time.monotonic()
    jax.jit(slow)(jnp.ones(64))
    return time.monotonic() - began

with jaxobs.instrument() as obs:
    turns, spent = 160, []
    while sum(seconds for seconds in spent if seconds > 1.5) < 13:
        assert len(spent) < 30, spent
        spent.append(compile_something(len(spent), turns))
        if spent[-1] < 2.5:  # a fast machine
            turns = turns * 3 // 2
    time.sleep(0.5)
    say(document=obs.snapshot(60).to_dict())
    wait()
"""


@pytest.mark.long
def test_a_start_of_long_compiles_is_told_of_the_cache_on_disk(start_training: Start) -> None:
    training = start_training(SLOW_COMPILES)
    document = training.hear()["document"]
    piece = advice_of(document, "persistent_cache")
    backend = sum(function["seconds"]["backend"] for function in document["functions"].values())
    assert (
        10.0 / document["process"]["seconds"]
        < piece["saves_ratio"]
        <= backend / document["process"]["seconds"]
    )
    assert "JAX_COMPILATION_CACHE_DIR" in piece["remedy"]
    assert training.end() == 0, training.errors()
