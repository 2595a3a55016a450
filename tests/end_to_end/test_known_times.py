"""A training process whose times are known, because it sleeps: what is derived must be those."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.end_to_end.training import Training

KNOWN = """
def loader(items, pause):
    for item in range(items):
        time.sleep(pause)
        yield item

def sleep_on_the_device(seconds):
    time.sleep(float(seconds))
    return seconds

@jax.jit
def device_work(x):
    return jax.pure_callback(sleep_on_the_device, jax.ShapeDtypeStruct((), jnp.float32), x)

began = time.monotonic()
obs = jaxobs.instrument()
with obs.phase("initialisation"):
    time.sleep(0.3)
    float(device_work(0.01))
for item in obs.steps(loader(20, 0.02), examples=4, tokens=lambda item: item):
    time.sleep(0.01)
    if item % 10 == 9:
        with obs.phase("checkpoint"):
            time.sleep(0.1)
        for _ in obs.steps(loader(5, 0.005), loop="eval"):
            time.sleep(0.01)
with obs.phase("checkpoint"):
    time.sleep(0.2)
time.sleep(0.5)
work = obs.watch(device_work)
for _ in obs.steps(range(30), loop="device"):
    float(work(0.03))
for _ in range(3):
    try:
        with obs.step(loop="manual"):
            time.sleep(0.02)
            raise KeyError("the user's own")
    except KeyError:
        pass
obs.record(outside=7)
time.sleep(0.6)
document = obs.snapshot(5.0).to_dict()
obs.shutdown()
say(document=document, age=time.monotonic() - began, final=obs.final_snapshot.to_dict()["loops"])
"""


def near(seconds: float, slack: float = 0.15) -> object:
    """Sleeps are never shorter; on a loaded machine they are longer."""
    return pytest.approx(seconds * (1 + slack / 2), rel=slack, abs=0.05)


def test_times_that_are_known_come_out(start_training: Callable[..., Training]) -> None:
    training = start_training(KNOWN)
    heard = training.hear()
    document = heard["document"]
    train, evaluation, manual, device = (
        document["loops"][name] for name in ("train", "eval", "manual", "device")
    )

    assert (train["steps"], train["examples"], train["tokens"]) == (20, 80.0, 190.0)
    assert train["components"]["input"] == near(20 * 0.02)
    assert train["components"]["checkpoint"] == near(0.2)
    assert train["components"]["unknown"] == near(20 * 0.01)
    assert train["wall_seconds"] == near(0.8)  # without the inner loop
    assert sum(train["components"].values()) == pytest.approx(train["wall_seconds"], rel=1e-9)

    assert evaluation["steps"] == 10
    assert evaluation["components"]["input"] == near(10 * 0.005)
    assert evaluation["wall_seconds"] == near(0.15)

    assert (manual["steps"], manual["failed_steps"]) == (3, 3)
    assert manual["wall_seconds"] == near(0.06)

    assert device["steps"] == 30
    assert device["step_seconds_source"] == "completions"
    assert device["step_seconds"] == pytest.approx(0.03, rel=0.25)
    (made,) = [made for made in document["executables"] if made["function"] == "device_work"]
    assert made["runs"] == 30
    assert train["recorded"] == {"outside": 7.0}  # outside every loop

    charged = document["process"]["run_seconds"]
    # Up to the last step of `manual`: a loop of single steps may go on, and 0.6 s later nobody knows yet.
    assert sum(charged.values()) == pytest.approx(document["process"]["seconds"] - 0.6, abs=0.2)
    assert charged["checkpoint"] == near(0.4)
    assert charged["input"] == pytest.approx(
        sum(loop["components"]["input"] for loop in document["loops"].values()), abs=0.05
    )
    loops = sum(loop["wall_seconds"] for loop in document["loops"].values())
    assert charged["productive"] <= loops
    assert charged["initialisation"] >= 0.3
    assert document["agent"]["events_refused"] == document["agent"]["events_dropped"] == 0
    assert heard["final"]["train"]["steps"] == 20
    assert training.process.wait(20) == 0
    assert training.errors() == ""
