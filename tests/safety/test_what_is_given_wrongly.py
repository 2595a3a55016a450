"""What is given wrongly is refused at the call that gives it, or said once; the loop is never the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

GIVEN = """
import jax
for wrong in (3, "step", None):
    try:
        obs.watch(wrong)
    except TypeError as error:
        print(error)

inner = jax.jit(lambda x: x @ x)
def train_step(x): return inner(x)
def count(batch): raise KeyError(batch)

x = inner(jax.numpy.ones((8, 8)))
step = obs.watch(train_step)
assert obs.watch(train_step)(x).shape == (8, 8)
assert obs.watch(obs.watch(inner)) is not None
for batch in obs.steps(range(50), examples=count, tokens=lambda batch: "many"):
    step(x)
for batch in obs.steps(range(50), loop="second", examples=lambda batch: 7 if batch % 2 else 1 / 0):
    step(x)
snapshot = obs.snapshot(60)
loop = snapshot["loops"]["train"]
print(loop["steps"], loop["failed_steps"], loop["examples"], loop["tokens"])
print(loop["examples_reason"])
print(loop["tokens_reason"])
print(loop["mfu_reason"])
print(snapshot["loops"]["second"]["examples"], snapshot["loops"]["second"]["examples_reason"])
print(snapshot["agent"]["events_refused"] == 75)
print(snapshot["agent"]["refused_reasons"])
"""

UNREADABLE = "raised, or gave no finite, positive number (an array on the device is not read)"
NOT_JITTED = "it is no function of jax.jit: jit it first, or watch the jitted functions that it calls"


def test_it_is_refused_at_once_or_said_once_and_the_snapshot_tells_why(run: Callable[..., Any]) -> None:
    outcome = run(GIVEN)
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.splitlines() == [
        "watch() takes a function of jax.jit, not an object of type 'int'",
        "watch() takes a function of jax.jit, not an object of type 'str'",
        "watch() takes a function of jax.jit, not an object of type 'NoneType'",
        "50 0 None None",
        f"examples= {UNREADABLE}",
        f"tokens= {UNREADABLE}",
        f"train_step: {NOT_JITTED}",
        f"175.0 examples= {UNREADABLE}",
        "True",
        str(
            [
                f"{times} × {word}= of loop `{loop}`: no finite, positive number"
                for times, word, loop in (
                    (50, "examples", "train"),
                    (50, "tokens", "train"),
                    (25, "examples", "second"),
                )
            ]
        ),
    ]
    assert outcome.stderr == (
        "jaxobs: obs.watch(train_step): this is no function of jax.jit, so its runs are seen only if what it compiles is "
        "named 'train_step' too; jit it first, or watch the jitted functions that it calls\n"
    )


WITH_STATE = """
class Trainer:
    def __init__(self): self.count = 0
    def __call__(self): self.count += 1

trainer = Trainer()
watched = obs.watch(trainer)
watched()
watched.count += 1
print(watched is trainer, trainer.count)
"""


def test_an_object_with_attributes_that_is_not_jitted_is_given_back_with_a_warning(
    run: Callable[..., Any],
) -> None:
    outcome = run(WITH_STATE)
    assert (outcome.status, outcome.stdout) == (0, "True 2\n"), outcome.stderr
    assert outcome.stderr == (
        "jaxobs: obs.watch(Trainer) does nothing: this callable is a pytree with arrays or an object with attributes, "
        "which its own methods, jax.grad and checkpoints would miss in what stands in for it; watch the jitted functions "
        "that it calls, or that take it as an argument, such as your train step\n"
    )


UNREADABLE_OBJECTS = """
import sys
import jax

def raises(*_): raise LookupError("no such name")
def leaves(*_): sys.exit(3)
class Registry(type):
    __getattribute__ = raises
def called(self): return 7
objects = [
    type("Proxy", (), {"__call__": called, "__getattr__": raises})(),
    type("Lazy", (), {"__call__": called, "__getattr__": leaves})(),
    type("Slow", (), {"__call__": called, "__wrapped__": property(raises)})(),
    type("Posing", (), {"__call__": called, "__class__": property(raises)})(),
    type("Named", (), {"__call__": called, "__name__": type("Name", (), {"__str__": raises})()})(),
    type("Placed", (), {"__call__": called, "__module__": []})(),
    Registry("Entry", (), {"__call__": called})(),
]
def wrapper(): return 7
wrapper.__wrapped__ = objects[0]
for given in (*objects, wrapper):
    watched = obs.watch(given)
    print(watched is given, watched())
"""


def test_an_object_whose_attributes_raise_is_given_back_with_a_warning(run: Callable[..., Any]) -> None:
    outcome = run(UNREADABLE_OBJECTS)
    assert (outcome.status, outcome.stdout) == (0, "True 7\n" * 8), outcome.stderr
    lookup = "LookupError: no such name"
    raised = {
        "Proxy": lookup,
        "Lazy": "SystemExit: 3",
        "Slow": lookup,
        "Posing": lookup,
        "Named": lookup,
        "Placed": "TypeError: unhashable type: 'list'",
        "Entry": lookup,
        "function": lookup,
    }
    assert [line for line in outcome.stderr.splitlines() if " cannot be read: " in line] == [
        f"jaxobs: obs.watch does nothing: attributes of this {kind} cannot be read: {error}"
        for kind, error in raised.items()
    ]


STRANGE_CLASSES = """
import jax
class Registry(type):
    def __getattr__(cls, name): raise LookupError(name)
class Samples(metaclass=Registry):
    def __getitem__(self, index):
        if index == 3: raise IndexError
        return index
class Size(metaclass=Registry): pass

print([*obs.steps(Samples())])
for given in ({"examples": Size()}, {"tokens": Size()}, {"flops": Size()}):
    with obs.step(**given): pass
    print(*obs.steps([7], **given))
"""


def test_classes_that_raise_for_attributes_they_lack_do_not_end_a_loop(run: Callable[..., Any]) -> None:
    outcome = run(STRANGE_CLASSES)
    assert (outcome.status, outcome.stdout) == (0, "[0, 1, 2]\n7\n7\n7\n"), outcome.stderr


NOT_WEAKLY_HELD = """
import operator
import jax, numpy

class Slotted:
    __slots__ = ()
    def __call__(self, x): return x

for function in (Slotted(), operator.itemgetter(0), numpy.sin):
    jitted = jax.jit(function)
    for called in (jitted, obs.watch(jitted)):
        try:
            called([1.0])
        except TypeError as error:
            print(str(error).partition(" to ")[0])
print("alive")
"""


def test_what_jax_cannot_call_raises_as_without_and_does_not_end_the_process(run: Callable[..., Any]) -> None:
    """Of an object that cannot be referred to weakly `jax.jit` makes a function whose copy ends the process."""
    outcome = run(NOT_WEAKLY_HELD)
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.splitlines() == ["cannot create weak reference"] * 6 + ["alive"]
