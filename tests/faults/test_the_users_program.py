"""What the user's program gives to JAX and does with it, however odd: it sees what it sees without jaxobs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

COUNTS = """
import collections, json, threading
import jax, jax.numpy as jnp
asked = collections.Counter()

def compared():
    # How often JAX compares depends on where things lie in its tables, so what counts is who asks.
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__", "").startswith("jax."):
        frame = frame.f_back
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    calls_it = frame.f_code.co_name == "__call__"  # that of a watched function
    if package in ("jaxobs", "jaxobs_plugins") and not calls_it:
        asked["eq by " + frame.f_code.co_qualname] += 1
    if threading.current_thread() is not threading.main_thread():
        asked["eq on " + threading.current_thread().name] += 1
    time.sleep(0.001)

class Odd:
    # Slow, and raising where JAX does without.
    def __init__(self, kind): object.__setattr__(self, "kind", kind)
    def __hash__(self): asked["hash"] += 1; time.sleep(0.001); return 7
    def __eq__(self, other): compared(); return self is other
    def __repr__(self): asked["repr"] += 1; raise ValueError("repr")
    __str__ = __format__ = __repr__
    def __len__(self): asked["len"] += 1; raise ValueError("len")
    def __bool__(self): asked["bool"] += 1; raise ValueError("bool")
    def __getattr__(self, name): asked["getattr " + name] += 1; raise AttributeError(name)

class Raises(Odd):  # hashed as JAX must, and never equal to another without an error
    def __eq__(self, other):
        compared()
        if other is not self: raise ValueError("eq")
        return True
    __hash__ = Odd.__hash__

class Node:
    def __init__(self, leaf): self.leaf = leaf
auxiliary = Odd("auxiliary")
jax.tree_util.register_pytree_node(Node, lambda node: ((node.leaf,), auxiliary), lambda _, leaves: Node(*leaves))

static = jax.jit(lambda x, how: x * 2, static_argnums=1)
named = jax.jit(lambda x, *, how: x * 3, static_argnames="how")
tree = jax.jit(lambda node: jax.tree.map(lambda leaf: leaf + 1, node))
returns = jax.jit(lambda x: Node(x))
steps = obs.steps if OBSERVED else (lambda items, **_: items)
if OBSERVED: static, named, tree, returns = map(obs.watch, (static, named, tree, returns))
hows = [Odd("first"), Odd("second"), Raises("third")]
for turn in steps([hows[0]] * 12, **({} if not OBSERVED else {"examples": 2})):
    number = asked["turns"] = asked["turns"] + 1
    x = jnp.ones(3 if number < 8 else 4)
    static(x, hows[number > 5]); named(x, how=hows[number > 6]); tree(Node(x)); returns(x)
    static(jnp.ones(number), hows[2])
    static.lower(x, hows[0])
time.sleep(1.5)  # turns of our threads
print(json.dumps(asked))
if OBSERVED:
    found = obs.snapshot(60)
    assert found["loops"]["train"]["steps"] == 12, found["loops"]
    assert all(source["up"] is not False for source in found["sources"].values() if source["kind"] == "probe")
"""


@pytest.mark.fault(35)
def test_types_of_the_user_are_asked_nothing_more_than_without(run: Callable[..., Any]) -> None:
    settings = {"JAXOBS_INTERVAL": "0.2"}
    plain, observed = run(COUNTS, observed=False), run(COUNTS, **settings)
    assert (observed.status, observed.stderr) == (plain.status, plain.stderr) == (0, "")
    assert json.loads(observed.stdout) == json.loads(plain.stdout)


ENDS_ODDLY = """
import asyncio, contextlib, traceback
import jax, jax.numpy as jnp
steps = obs.steps if OBSERVED else (lambda items: items)
watch = obs.watch if OBSERVED else (lambda function: function)
around = obs.step if OBSERVED else contextlib.nullcontext

@watch
@jax.jit
def raises(x): raise KeyError("in the trace")
@watch
@jax.jit
def sound(x): return x + 1
@watch
@jax.jit
def returns_nothing(x): return None
@watch
@jax.jit
def returns_text(x): return "text"
donated = watch(jax.jit(lambda x: x * 2, donate_argnums=0))

def told(run):
    try:
        print("->", run())
    except BaseException as error:
        frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        behind = error.__cause__, type(error.__context__).__name__
        print(type(error).__name__, str(error).splitlines()[:1], frames[:2], frames[-1:], *behind)

def loop(body):
    for turn in steps(range(3)):
        body(turn)

def deleted():
    x = sound(jnp.ones(3)); x.delete()
    return sound(x)
def used_twice():
    x = jnp.ones(8); donated(x)
    return sound(x)
def leaves(turn):
    if turn == 1: raise GeneratorExit("of the user")

async def cancelled():
    async def train():
        for turn in steps(range(1000)):
            with around():
                sound(1.0)
                await asyncio.sleep(0.01)
    task = asyncio.create_task(train())
    await asyncio.sleep(0.1)
    task.cancel()
    await task

def in_a_step(run):
    with around(): return run()

told(lambda: raises(1.0))
told(lambda: loop(lambda turn: raises(1.0)))
told(lambda: in_a_step(lambda: raises(1.0)))
told(lambda: returns_nothing(1.0))
told(lambda: returns_text(1.0))
told(deleted); told(used_twice)
told(lambda: in_a_step(deleted))
told(lambda: loop(lambda turn: in_a_step(lambda: leaves(turn))))
told(lambda: asyncio.run(cancelled()))
told(lambda: in_a_step(lambda: sys.exit(7)))
told(lambda: sound(1.0, 2.0))
if OBSERVED:
    found = obs.snapshot(60)["loops"]["train"]
    print("counted", found["failed_steps"], found["steps"] > 5, file=sys.stderr)
    sources = obs.snapshot(60)["sources"].items()
    print([name for name, source in sources if not source["up"] and source["failures"]], file=sys.stderr)
sys.exit(4)
"""


@pytest.mark.fault(29)
def test_functions_that_raise_are_cancelled_or_return_no_array_are_as_without(
    run: Callable[..., Any],
) -> None:
    plain, observed = run(ENDS_ODDLY, observed=False), run(ENDS_ODDLY)
    assert plain.status == observed.status == 4

    def shortened(text: str) -> str:
        return re.sub(r"0x[0-9a-f]+|id=\d+", "ADDRESS", text)

    assert shortened(observed.stdout) == shortened(plain.stdout)
    assert plain.stdout.count("Error") >= 6
    counted, down = observed.stderr.splitlines()
    assert down == "[]"
    # A turn in which a function raised, and steps that raised: three by a function, one cancelled, one exited. One that a
    # GeneratorExit left was left, as by a `break`.
    assert counted == "counted 5 True"


CLEARS = """
import jax
obs_steps = obs.steps
step = obs.watch(jax.jit(lambda x: x + 1))
step(1.0)
time.sleep(0.3)
heard = []
for _ in range(3):
    jax.monitoring.clear_event_listeners()
    jax.monitoring.register_event_duration_secs_listener(lambda event, *a, **k: heard.append(event))
    time.sleep(2.5)
@jax.jit
def after(x): return x * 2
for _ in obs_steps(range(5)): after(1.0)
import urllib.request
deadline = time.monotonic() + 20
while "after" not in obs.snapshot(5.0)["functions"]: assert time.monotonic() < deadline
while "jaxobs_listener_restored_total 3.0" not in (text := urllib.request.urlopen(obs.address).read().decode()):
    if time.monotonic() > deadline: break
    time.sleep(0.01)
print([line for line in text.splitlines() if line.startswith("jaxobs_listener_restored_total ")])
print(obs.snapshot(60)["functions"]["after"]["compilations"], len(heard) > 0)
"""


@pytest.mark.slow
@pytest.mark.fault(23)
def test_listeners_that_the_user_clears_are_registered_again_and_counted(run: Callable[..., Any]) -> None:
    outcome = run(CLEARS, JAXOBS_INTERVAL="0.2")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.splitlines() == ["['jaxobs_listener_restored_total 3.0']", "1 True"]
