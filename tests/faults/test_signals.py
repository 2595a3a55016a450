"""Exceptions of the user's signal handlers, thousands of them, and exits: each arrives as without jaxobs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

STORM = """
import gc, json, random, signal
import jax, jax.numpy as jnp

class AlarmError(OSError): pass  # as TimeoutError, one that many an `except` is meant for
steps = obs.steps if OBSERVED else (lambda items: items)
step, x = jax.jit(lambda x: (x @ x).sum()), jnp.ones((32, 32))
step(x)
if OBSERVED:
    step = obs.watch(step)
    print("no callback of ours in the collector:", not [c for c in gc.callbacks if "jaxobs" in str(c)])
gc.callbacks.clear()  # JAX has one, in which what a handler raises is printed and lost, with jaxobs or without
raised = caught = 0

def rings(number, frame):
    global raised
    raised += 1
    raise AlarmError

signal.signal(signal.SIGALRM, rings)
delays = random.Random(os.environ["SEED"])

def turns():
    for turn in steps(iter(int, 1)):
        step(x).block_until_ready()
        batch = [{"k": [number]} for number in range(20)]  # as a data loader makes
        if OBSERVED:
            obs.record(turn=turn)
            with obs.phase("evaluation"):
                step(x)
        if raised > caught:  # one was lost
            break

while raised < 10_000 and raised == caught:
    try:
        signal.setitimer(signal.ITIMER_REAL, delays.uniform(1e-5, 6e-4))
        turns()  # in Python 3.13 a jump at the end of a `for` is in no `try` around it
    except AlarmError:
        caught += 1
print("raised", raised, "caught", caught)
if OBSERVED:
    for _ in obs.steps(range(50), loop="afterwards"):
        step(x)
    deadline = time.monotonic() + 60
    while "afterwards" not in ((found := obs.snapshot(60.0))["loops"] or {}):
        assert time.monotonic() < deadline, found["loops_reason"]
    loops = found["loops"]
    print("afterwards", loops["afterwards"]["steps"], "failed", loops["afterwards"]["failed_steps"])
    probes = [source for source in found["sources"].values() if source["kind"] == "probe"]
    up = probes != [] and all(probe["up"] is not False for probe in probes)  # None: there is nothing for it to tell
    print("train", loops["train"]["steps"] > 1000, up)
"""


@pytest.mark.slow
@pytest.mark.fault(40)
def test_of_ten_thousand_exceptions_of_a_signal_handler_none_is_lost(
    start: Callable[..., Any], seed: str
) -> None:
    # Not traced where coverage is measured, which would take it three times as long.
    untraced = {"COVERAGE_PROCESS_START": "", "COVERAGE_PROCESS_CONFIG": ""}
    outcome = start(STORM, SEED=seed, **untraced).end(170)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.splitlines() == [
        "no callback of ours in the collector: True",
        "raised 10000 caught 10000",
        "afterwards 50 failed 0",
        "train True True",
    ]


AS_BEFORE = """
import copy, ctypes, faulthandler, os, pickle, signal, sys
faulthandler.register(signal.SIGINT, file=open(os.devnull, "w"))  # in C: for Python it has its default handler
signal.signal(signal.SIGUSR2, lambda *_: None)
signal.siginterrupt(signal.SIGUSR2, False)
def action(number):
    found = ctypes.create_string_buffer(256)
    ctypes.CDLL(None).sigaction(number, None, found)
    return found.raw[:8], found.raw[136:140]  # the handler, and the flags where glibc has them on 64-bit Linux
before = {number: action(number) for number in signal.valid_signals()}
import jax, jaxobs
class Trainer: pass
trainer = Trainer()
os.close(0)
trainer.obs = jaxobs.instrument()
trainer.batches = iter(trainer.obs.steps(range(9)))  # in a cycle, and never exhausted
trainer.itself = trainer
next(trainer.batches)
jax.jit(lambda x: x + 1)(1.0)
print(trainer.obs.snapshot(60)["agent"]["pid"] > 0)
os.kill(os.getpid(), signal.SIGINT)
print({number for number in before if action(number) != before[number]})
print(os.path.exists("/proc/self/fd/0"), copy.deepcopy([trainer.obs]) == [trainer.obs])
print(pickle.loads(pickle.dumps(trainer.obs)).has_ended)
"""


@pytest.mark.fault(72, 77)
def test_handlers_flags_streams_and_objects_of_the_job_are_as_before(start: Callable[..., Any]) -> None:
    """Also handlers that Python does not know of, and an iterator of ours that the interpreter's end finds half used."""
    outcome = start(AS_BEFORE, observed=False, PYTHONÄ="a name that no shell takes").end()
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.splitlines() == ["True", "set()", "False True", "True"]


ENDS_SOON = """
import random, threading
import jax, jax.numpy as jnp
step, x = jax.jit(lambda x: (x @ x).sum()), jnp.ones((128, 128))
if OBSERVED:
    step = obs.watch(step)
until = time.monotonic() + float(os.environ["AFTER"])
for turn in obs.steps(iter(int, 1)) if OBSERVED else iter(int, 1):
    loss = step(x)  # not waited for: threads of ours look at it when the end comes
    if time.monotonic() > until:
        break
print("trained")
sys.exit(3)
"""


@pytest.mark.slow
@pytest.mark.fault(34)
def test_at_whatever_moment_a_job_exits_its_status_is_its_own(
    start: Callable[..., Any], chance: random.Random
) -> None:
    for _ in range(5):
        delays = [chance.uniform(0.0, 1.5) for _ in range(3)]
        jobs = [
            start(ENDS_SOON, AFTER=str(delay), JAXOBS_SAMPLE_INTERVAL="0.05", JAXOBS_INTERVAL="0.05")
            for delay in delays
        ]
        for delay, job in zip(delays, jobs, strict=True):
            outcome = job.end()
            assert (outcome.status, outcome.stdout, outcome.stderr) == (3, "trained\n", ""), delay
