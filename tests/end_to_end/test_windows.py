"""A training process that only marks its steps: what profiler windows make known of it."""

from __future__ import annotations

from collections.abc import Callable

import jax
import pytest

from tests.end_to_end.training import Training

pytestmark = pytest.mark.skipif(
    jax.__version_info__ < (0, 8), reason="this JAX records no operations of a CPU"
)

UNWATCHED = """
import threading

@jax.jit
def products(x):
    for _ in range(4):
        x = jnp.tanh(x @ x)
    return x

def loader(items):
    for item in range(items):
        time.sleep(0.02)
        yield item

def window():
    time.sleep(0.3)
    obs.profile(0.3)

obs = jaxobs.instrument()
x = jnp.ones((128, 128)) / 128
products(x).block_until_ready()
def collate(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass

for loop, items in (("host", range(150)), ("input", loader(60))):
    threading.Thread(target=window).start()
    for _ in obs.steps(items, loop=loop):
        products(x).block_until_ready()
        if loop == "host":
            collate(0.02)
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    document = obs.snapshot(60).to_dict()
    if all(document["loops"][loop]["profile"] for loop in ("host", "input")):
        break
    time.sleep(0.1)
obs.shutdown()
say(document=document)
"""


def test_windows_tell_what_a_loop_did_that_watches_nothing(start_training: Callable[..., Training]) -> None:
    document = start_training(UNWATCHED).hear()["document"]
    for name in ("host", "input"):
        loop = document["loops"][name]
        assert loop["bottleneck"]["label"] == name
        # How long the main thread is on a processor is told by a few samples a second, and fewer on a loaded machine.
        assert loop["bottleneck"]["shares"]["unknown"] < 0.3
        assert loop["bottleneck"]["confidence"] > 0.2
        assert loop["profile"]["steps"] >= 1
        assert sum(loop["components"].values()) == pytest.approx(loop["wall_seconds"], rel=1e-9)
    (made,) = [made for made in document["executables"] if made["function"] == "products"]
    assert made["source"] == "sampled"
    assert made["runs"] == pytest.approx(
        sum(document["loops"][name]["profile"]["steps"] for name in ("host", "input")), abs=4
    )
    assert {row["function"] for row in document["operations"]} >= {"products"}
    found = sum(row["flops"] or 0 for row in document["operations"] if row["function"] == "products")
    assert found == pytest.approx(made["runs"] * made["cost"]["flops"], rel=0.2)
