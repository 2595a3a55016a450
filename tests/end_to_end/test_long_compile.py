"""A long compile in a real process is explained by the agent: the loop that was unrolled, by its line."""

from __future__ import annotations

from collections.abc import Callable

from tests.end_to_end.training import PREPARE, Training

Start = Callable[..., Training]

UNROLLED = """
TABLE = jnp.sin(jnp.arange(512 * 1024.0)).reshape(512, 1024)

@jax.jit
def network(x):
    time.sleep(5.5)  # while it is traced
    for _ in range(64):
        x = jnp.cos(jnp.sin(x))
    return x @ TABLE

@jax.jit
def short(x):
    return x + 1

with jaxobs.instrument() as obs:
    short(network(jnp.ones((2, 512)))).block_until_ready()
    say(document=obs.snapshot(60).to_dict())
    wait()
"""


def test_a_long_compile_is_told_with_the_loop_that_was_unrolled(start_training: Start) -> None:
    line = 1 + (PREPARE + UNROLLED)[: (PREPARE + UNROLLED).index("x = jnp.cos")].count("\n")
    functions = start_training(UNROLLED).hear()["document"]["functions"]
    found = functions["network"]["long_compile"]
    assert found["seconds"]["trace"] >= 5.5
    unrolled, (constant,) = found["contents"]["unrolled"], found["contents"]["constants"]
    assert (unrolled["times"], unrolled["operations"]) in {
        (64, 2),
        (64, 4),
    }  # newer ones make a fusion of each
    assert unrolled["function"] == "network"
    assert unrolled["line"] == f"<string>:{line}"
    assert (constant["dtype"], constant["shape"]) == ("float32", [512, 1024])
    assert functions["short"]["long_compile"] is None
