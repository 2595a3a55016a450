"""A watched function is the function to all that look at it: the script, pickle, warnings, and the user's own trees."""

from __future__ import annotations

import copy
import functools
import inspect
import io
import logging
import pickle
import pydoc
import re
import sys
import types
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import pytest

from jaxobs.probe.watch.automatic import watch_all_jitted
from tests.probe.watched_runs import executables, runs


@jax.jit
def doubled(x: Any) -> Any:
    """Twice its argument."""
    return x * 2


def plain(x: Any) -> Any:
    """Three times its argument."""
    return x * 3


async def coroutine(x: Any) -> Any:
    return x


class Owner:
    def method(self, x: Any) -> Any:
        return x


def shown(function: Any) -> dict[str, Any]:
    """What a script can see of a function, by what it asks."""

    @functools.wraps(function)
    def wrapper() -> None: ...

    asked: dict[str, Callable[[], Any]] = {
        "text": lambda: (repr(function), str(function), f"{function}"),
        "dir": lambda: dir(function),
        "help": lambda: pydoc.render_doc(function),
        "signature": lambda: inspect.signature(function),
        "source": lambda: inspect.getsource(function),
        "unwrapped": lambda: inspect.unwrap(function).__name__,
        "kinds": lambda: [
            inspect.iscoroutinefunction(function), inspect.isfunction(function), inspect.ismethod(function),
            inspect.isroutine(function), callable(function),
        ],
        "types": lambda: (
            function.__class__, type(function).__name__, isinstance(function, type(doubled)),
            isinstance(function, jax.stages.Wrapped), isinstance(function, jax.stages.Compiled),
        ),
        "dispatched": lambda: functools.singledispatch(plain).dispatch(function.__class__),
        "wraps": lambda: (wrapper.__name__, wrapper.__doc__, wrapper.__module__, sorted(vars(wrapper))),
        "partial": lambda: repr(functools.partial(function, 1)),
        "set": lambda: (setattr(function, "mark", 1), function.mark, vars(function)["mark"]),
        "deleted": lambda: (delattr(function, "mark"), hasattr(function, "mark")),
        "renamed": lambda: (setattr(function, "__doc__", "another"), function.__doc__),
        "compared": lambda: (function == function, hash(function) == hash(function), function != 1),  # noqa: PLR0124
        "referred": lambda: weakref.ref(function)() is function,
        "not there": lambda: function.no_such,
        "ordered": lambda: function < 1,
    }  # fmt: skip
    names = (
        "__name__",
        "__qualname__",
        "__module__",
        "__doc__",
        "__annotations__",
        "__wrapped__",
        "__defaults__",
    )
    for name in (
        *names,
        "__code__",
        "__self__",
        "function",
        "original",
        "lower",
        "trace",
        "eval_shape",
        "clear_cache",
    ):
        asked[name] = functools.partial(getattr, function, name)
    found = {}
    for what, ask in asked.items():
        try:
            answer = ask()
        except Exception as error:  # noqa: BLE001  # shown as well
            answer = f"{type(error).__name__}: {error}"
        found[what] = re.sub(r"0x[0-9a-f]+|jaxlib\.[._a-z]*", "", str(answer))
    return found


@pytest.mark.parametrize("kind", ["jitted", "function", "coroutine", "method", "compiled ahead"])
def test_it_shows_the_same_as_the_function(observed: Any, kind: str) -> None:
    def fresh(function: Any) -> Any:
        return functools.update_wrapper(
            types.FunctionType(function.__code__, globals()), function, updated=()
        )

    def look(watch: Callable[[Any], Any]) -> dict[str, Any]:
        made = {
            "jitted": lambda: jax.jit(fresh(plain)), "function": lambda: fresh(plain),
            "coroutine": lambda: fresh(coroutine), "method": lambda: Owner().method,
            "compiled ahead": lambda: jax.jit(plain).lower(1.0).compile(),
        }[kind]()  # fmt: skip
        return shown(watch(made))

    seen, expected = look(observed.side.watching.watch), look(lambda function: function)
    if kind == "compiled ahead":
        del seen["help"], expected["help"]  # of an object it lists what its class has
    assert seen == expected


def test_it_equals_the_function_and_is_found_under_it(observed: Any) -> None:
    owner = Owner()
    for function in (doubled, plain, owner.method):
        watched = observed.side.watching.watch(function)
        assert observed.side.watching.watch(watched) is watched
        assert (watched == function, function == watched) == (True, True)
        assert ({function: 1}[watched], {watched: 1}[function]) == (1, 1)
    assert observed.side.watching.watch(plain) != doubled


@pytest.mark.parametrize("function", [doubled, doubled.lower(1.0).compile()], ids=["jitted", "compiled"])
def test_what_a_script_asks_for_by_its_type_is_found_watched_or_not(observed: Any, function: Any) -> None:
    watched = observed.side.watching.watch(function)
    for kind in (type(function), type(watched)):
        found = functools.singledispatch(lambda thing: "another")
        found.register(kind)(lambda thing: "found")
        for thing in (function, watched):
            assert isinstance(thing, kind)
            assert found(thing) == "found"
        for thing in (plain, 1.0):
            assert not isinstance(thing, kind)
            assert found(thing) == "another"


def test_what_it_lowers_traces_and_evaluates_is_the_functions(observed: Any) -> None:
    watched = observed.side.watching.watch(doubled)
    assert watched.lower(1.0).compile()(1.0) == 2.0
    assert watched.trace(1.0).jaxpr.in_avals == doubled.trace(1.0).jaxpr.in_avals
    assert watched.eval_shape(1.0).shape == ()
    assert watched.__wrapped__ is inspect.unwrap(doubled)


def test_a_copy_is_the_function_itself_but_for_a_method_of_what_is_copied_with_it(observed: Any) -> None:
    watched = observed.side.watching.watch(doubled)
    assert copy.copy(watched) is watched
    assert copy.deepcopy({"step": watched})["step"] is watched
    owner = Owner()
    owner.step = observed.side.watching.watch(owner.method)  # type: ignore[attr-defined]  # as users do
    copied = copy.deepcopy(owner)
    assert copied.step.__self__ is copied  # type: ignore[attr-defined]


class ByValue(pickle.Pickler):
    """Pickles as libraries do that send functions to another machine: what is jitted by the function in it."""

    def reducer_override(self, thing: Any) -> Any:
        return (jax.jit, (plain,)) if type(thing) is type(doubled) else NotImplemented


class WithoutUs(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        assert "jaxobs" not in module
        return super().find_class(module, name)


def test_a_pickle_is_one_of_the_function_and_loads_where_there_is_no_jaxobs(
    observed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = observed.side.watching.watch
    owner = Owner()
    owner.step = watch(jax.jit(plain))  # type: ignore[attr-defined]  # as users do
    for thing, call in (
        (watch(jax.jit(plain)), lambda loaded: loaded(2.0)),
        ([watch(len)], lambda loaded: 2 * loaded[0]("abc")),
        (functools.partial(watch(plain), 2.0), lambda loaded: loaded()),
        (owner, lambda loaded: loaded.step(2.0)),
        (watch(owner.method), lambda loaded: 3 * loaded(2.0)),
    ):
        file = io.BytesIO()
        ByValue(file).dump(thing)
        file.seek(0)
        assert call(WithoutUs(file).load()) == 6.0
    monkeypatch.setattr(sys.modules[__name__], "plain", watch(plain))  # as a decorator does
    assert pickle.loads(pickle.dumps(plain)) is plain
    assert b"jaxobs" not in pickle.dumps(plain)


@jax.tree_util.register_pytree_node_class
class Counted:
    """A pytree that counts how often it is flattened."""

    flattened = 0

    def __init__(self, value: Any) -> None:
        self.value = value

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        Counted.flattened += 1
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Counted:
        return cls(*children)


def test_pytrees_of_the_user_are_flattened_as_often_as_without(observed: Any) -> None:
    def times(watch: Callable[[Any], Any]) -> int:
        step = jax.jit(lambda state, batch: (Counted(state.value - batch), batch.sum()))
        early = jax.jit(lambda state: Counted(state.value + 1))
        early(Counted(jnp.ones(3)))
        step, early = watch(step), watch(early)  # the latter has been compiled
        Counted.flattened = 0
        for size in (4, 4, 5, 4, 5):
            step(Counted(jnp.ones(size)), jnp.ones(size))
            early(Counted(jnp.ones(3)))
        return Counted.flattened

    jnp.ones(5).sum()
    plainly = times(lambda function: function)
    assert times(observed.side.watching.watch) == plainly


@jax.tree_util.register_pytree_node_class
class Slotted:
    """A pytree without `__dict__`, whose `__getattr__` counts."""

    __slots__ = ("value",)
    asked: ClassVar[list[str]] = []

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getattr__(self, name: str) -> Any:
        Slotted.asked.append(name)
        raise AttributeError(name)

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Slotted:
        return cls(*children)


def test_a_pytree_of_the_user_without_attributes_is_asked_for_none(observed: Any) -> None:
    step = jax.jit(lambda state: (Slotted(state.value + 1), state.value.sum()))
    step(Slotted(jnp.ones(3)))
    plainly = len(Slotted.asked)
    watched = observed.side.watching.watch(step)
    for size in (3, 3, 4):
        watched(Slotted(jnp.ones(size)))
    assert Slotted.asked[plainly:] == Slotted.asked[:plainly]


def test_arguments_are_told_apart_by_attributes_of_the_users_types_and_an_absent_key_is_not_added(
    observed: Any,
) -> None:
    watched = observed.side.watching.watch(jax.jit(lambda state: jax.tree.map(lambda x: x + 1, state)))
    for size in (3, 4, 3):
        watched({"held": Counted(jnp.ones(size))})
    first, second = executables(observed, "<lambda>")
    assert runs(observed) == {first: 2, second: 1}
    given = defaultdict(lambda: jnp.ones(2), other=jnp.ones(3))
    watched(given)
    watched(given)
    assert list(given) == ["other"]


def warned(call: Callable[[], Any]) -> list[tuple[str, int]]:
    """Files and lines that warnings and log records name which look some frames up the stack."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[assignment,method-assign]
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
    finally:
        logging.getLogger().removeHandler(handler)
    found = [(each.filename, each.lineno) for each in caught] + [
        (each.pathname, each.lineno) for each in records
    ]
    return [(Path(file).name, line) for file, line in found]


def test_warnings_and_logs_name_the_line_that_they_name_without(observed: Any) -> None:
    def complains(x: Any) -> Any:
        for level in (2, 3):
            warnings.warn("old", DeprecationWarning, stacklevel=level)
            logging.getLogger().warning("old", stacklevel=level)
        if sys.version_info >= (3, 12):
            warnings.warn("old", skip_file_prefixes=("no such file",))
        return x

    jax_like = types.ModuleType("jax")
    jax_like.jit = jax_like.pmap = complains  # type: ignore[attr-defined]
    restore = watch_all_jitted(jax_like, lambda function: function)
    replaced = jax_like.jit
    restore()
    assert replaced is not complains

    def seen(function: Any) -> list[tuple[str, int]]:
        return warned(lambda: [function(abs)])

    assert len(set(seen(complains))) == 2
    assert seen(observed.side.watching.watch(complains)) == seen(complains)
    assert seen(replaced) == seen(complains)
