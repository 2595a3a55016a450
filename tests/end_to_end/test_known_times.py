"""A training process that times what it does: what is derived must be those times, however loaded the machine is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.end_to_end.training import Training

KNOWN = """
import collections, contextlib

spent = collections.Counter()

@contextlib.contextmanager
def timed(what):
    entered = time.monotonic()
    try:
        yield
    finally:
        spent[what] += time.monotonic() - entered

def loader(items, pause, what):
    for item in range(items):
        with timed(what):
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
with timed("both loops"):
    for item in obs.steps(loader(20, 0.02, "input"), examples=4, tokens=lambda item: item):
        with timed("work"):
            time.sleep(0.01)
        if item % 10 == 9:
            with timed("checkpoint"), obs.phase("checkpoint"):
                time.sleep(0.1)
            with timed("evaluation"):
                for _ in obs.steps(loader(5, 0.005, "input of the evaluation"), loop="eval"):
                    time.sleep(0.01)
with timed("last checkpoint"), obs.phase("checkpoint"):
    time.sleep(0.2)
time.sleep(0.5)
work = obs.watch(device_work)
with timed("device"):
    for _ in obs.steps(range(30), loop="device"):
        float(work(0.03))
for _ in range(3):
    with contextlib.suppress(KeyError), timed("manual"), obs.step(loop="manual"):
        time.sleep(0.02)
        raise KeyError("the user's own")
with timed("until it is told"):
    with timed("until it is asked"):
        obs.record(outside=7)
        time.sleep(0.6)
    document = obs.snapshot(60).to_dict()
obs.shutdown()
say(document=document, spent=spent, final=obs.final_snapshot.to_dict()["loops"])
"""


def near(seconds: float) -> object:
    """What the program's own clock said, but for what a loaded machine takes between two clocks that are read."""
    return pytest.approx(seconds, rel=0.15, abs=0.05)


def test_times_that_are_known_come_out(start_training: Callable[..., Training]) -> None:
    training = start_training(KNOWN)
    heard = training.hear()
    document, spent = heard["document"], heard["spent"]
    train, evaluation, manual, device = (
        document["loops"][name] for name in ("train", "eval", "manual", "device")
    )

    assert (train["steps"], train["examples"], train["tokens"]) == (20, 80.0, 190.0)
    assert train["components"]["input"] == near(spent["input"])
    assert train["components"]["checkpoint"] == near(spent["checkpoint"])
    assert train["components"]["unknown"] == near(spent["work"])
    assert train["wall_seconds"] == near(spent["both loops"] - spent["evaluation"])
    assert sum(train["components"].values()) == pytest.approx(train["wall_seconds"], rel=1e-9)

    assert evaluation["steps"] == 10
    assert evaluation["components"]["input"] == near(spent["input of the evaluation"])
    assert evaluation["wall_seconds"] == near(spent["evaluation"])

    assert (manual["steps"], manual["failed_steps"]) == (3, 3)
    assert manual["wall_seconds"] == near(spent["manual"])

    assert device["steps"] == 30
    assert device["step_seconds_source"] == "completions"
    assert device["step_seconds"] == pytest.approx(spent["device"] / 30, rel=0.25)
    (made,) = [made for made in document["executables"] if made["function"] == "device_work"]
    assert made["runs"] == 30
    # Outside every loop, so of the one whose step ended last.
    assert {name: each["recorded"] for name, each in document["loops"].items() if each["recorded"]} == {
        "manual": {"outside": 7.0}
    }

    charged = document["process"]["run_seconds"]
    # Up to the last step of `manual`: a loop of single steps may go on, and so soon afterwards nobody knows yet.
    uncharged = document["process"]["seconds"] - sum(charged.values())
    assert spent["until it is asked"] - 0.1 <= uncharged <= spent["until it is told"] + 0.2
    assert charged["checkpoint"] == near(spent["checkpoint"] + spent["last checkpoint"])
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
