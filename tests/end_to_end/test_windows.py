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

obs = jaxobs.instrument(profile_budget_ratio=0)  # no windows but those that are asked for
x = jnp.ones((128, 128)) / 128
products(x).block_until_ready()
def collate(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass

off_processor = {}
for loop, items in (("host", range(150)), ("input", loader(60))):
    threading.Thread(target=window).start()
    started, off = time.perf_counter(), 0.0
    for _ in obs.steps(items, loop=loop):
        at, spent = time.perf_counter(), time.thread_time()
        products(x).block_until_ready()
        if loop == "host":
            collate(0.02)
        off += time.perf_counter() - at - (time.thread_time() - spent)
    off_processor[loop] = off / (time.perf_counter() - started)
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    document = obs.snapshot(60).to_dict()
    if all(document["loops"][loop]["profile"] for loop in ("host", "input")):
        break
    time.sleep(0.1)
obs.shutdown()
say(document=document, off_processor=off_processor)
"""


@pytest.mark.long
def test_windows_tell_what_a_loop_did_that_watches_nothing(start_training: Callable[..., Training]) -> None:
    heard = start_training(UNWATCHED).hear()
    document = heard["document"]
    for name in ("host", "input"):
        loop = document["loops"][name]
        # Time in which others have the processor is unknown, rightly; how much that is, a few samples a second tell.
        off_processor = heard["off_processor"][name]
        assert loop["bottleneck"]["shares"]["unknown"] < 0.3 + off_processor
        if off_processor < 0.2:
            assert loop["bottleneck"]["label"] == name
            assert loop["bottleneck"]["confidence"] > 0.2
        else:
            assert loop["bottleneck"]["label"] in {name, "unknown", None}
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
