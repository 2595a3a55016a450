"""A watched function is the user's function in every way, and what ran is counted for the executable that ran."""

from __future__ import annotations

import copy
import functools
import inspect
import io
import logging
import os
import pickle
import pydoc
import re
import sys
import time
import traceback
import types
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.model.events import FunctionWatched, StepCompleted, StepEnded
from jaxobs.probe.steps.iteration import Steps
from jaxobs.probe.watch.automatic import watch_all_jitted
from jaxobs.probe.watch.calls import NOT_SEEN
from jaxobs.probe.watch.polling.completions import MOST_PASSED_BY
from jaxobs.probe.watch.watchable import is_jitted
from tests.probe.watched_runs import executables, runs, step


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


def test_what_it_lowers_traces_and_evaluates_is_the_functions(observed: Any) -> None:
    watched = observed.side.watching.watch(doubled)
    assert watched.lower(1.0).compile()(1.0) == 2.0
    assert watched.trace(1.0).jaxpr.in_avals == doubled.trace(1.0).jaxpr.in_avals
    assert watched.eval_shape(1.0).shape == ()
    assert watched.__wrapped__ is inspect.unwrap(doubled)


class JittedWithState:
    """As `flax.nnx.jit` makes them: it writes into objects what the jitted function gives, and returns nothing."""

    __module__ = "flax.stand_in"

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)
        self.jitted_fn = jax.jit(function)

    def __call__(self, state: dict[str, Any]) -> None:
        state["value"] = self.jitted_fn(state["value"])


def test_a_step_of_flax_nnx_that_returns_nothing_is_timed_by_what_it_updates(polled: Any) -> None:
    def training(value: Any) -> Any:
        weights, count = value
        return jnp.sin(weights @ weights), count + 1

    stateful, state = JittedWithState(training), {"value": (jnp.ones((400, 400)), jnp.ones(()))}
    for _ in range(2):
        assert polled.side.watching.watch(stateful) is stateful
    deadline, steps = time.monotonic() + 30, 0
    while not polled.of(StepCompleted) and time.monotonic() < deadline:
        with step(polled):
            stateful(state)
        steps += 1
    assert polled.of(StepCompleted)
    [executable] = executables(polled, "training")
    assert runs(polled) == {executable: steps}


def test_a_wrapper_of_a_jitted_function_is_one_whose_runs_are_seen(observed: Any) -> None:
    @jax.jit
    def inner(x: Any) -> Any:
        return x * 3

    @functools.wraps(inner)
    def wrapper(x: Any) -> Any:
        return inner(x)

    watched = observed.side.watching.watch(wrapper)
    for _ in range(4):
        watched(1.0)
    told = [event.reason for event in observed.of(FunctionWatched) if event.function == "inner"]
    assert told == [NOT_SEEN]
    assert runs(observed) == {executables(observed, "inner")[0]: 4}


def test_what_is_no_jitted_function_is_told_from_one(observed: Any) -> None:
    @functools.wraps(len)
    def plain(x: Any) -> Any:
        return x

    class Answers:
        def __getattr__(self, name: str) -> Any:
            if name in {"lower", "runtime_executable"}:
                raise AttributeError(name)
            return self

    assert [is_jitted(function) for function in (plain, Answers(), len)] == [False, True, False]
    assert all(map(is_jitted, (doubled, doubled.lower(1.0).compile(), observed.side.watching.watch(doubled))))


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


def test_keywords_of_any_name_and_methods_work(observed: Any) -> None:
    @functools.partial(jax.jit, static_argnames=("self", "args"))
    def named(x: Any, self: int = 1, args: int = 1) -> Any:
        return x + self + args

    assert observed.side.watching.watch(named)(1.0, self=5, args=2) == 8.0

    class Model:
        factor = 3

        def apply(self, x: Any) -> Any:
            return x * self.factor

    Model.apply = observed.side.watching.watch(jax.jit(Model.apply, static_argnums=0))  # type: ignore[method-assign]  # as users do
    assert Model().apply(2.0) == 6.0
    assert Model.apply(Model(), 2.0) == 6.0


def test_what_does_not_bind_as_an_attribute_of_a_class_does_not_when_watched(observed: Any) -> None:
    class Model:
        predict = observed.side.watching.watch(doubled.lower(1.0).compile())
        length = observed.side.watching.watch(len)

    model = Model()
    assert (model.predict(2.0), model.length("ab")) == (4.0, 2)
    assert model.predict is Model.predict


def test_attributes_of_a_jitted_object_are_read_from_it_and_not_from_a_copy(observed: Any) -> None:
    class Counting:
        def __init__(self) -> None:
            self.lower, self.count = doubled.lower, 0

        def __call__(self, x: Any) -> Any:
            self.count += 1
            return doubled(x)

    watched = observed.side.watching.watch(Counting())
    for count in (1, 2):
        watched(1.0)
        assert watched.count == count


def test_results_are_the_very_same_objects(observed: Any) -> None:
    result = object()
    assert observed.side.watching.watch(lambda: result)() is result


def test_an_exception_is_the_same_with_the_same_frames_and_the_step_has_failed(observed: Any) -> None:
    error = KeyError("of the user")

    def raises() -> None:
        raise error

    def frames(function: Any) -> list[str]:
        with pytest.raises(KeyError) as caught:
            function()
        assert caught.value is error
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        error.__traceback__ = None
        return names

    plain = frames(raises)
    watched = observed.side.watching.watch(raises)
    with step(observed):
        seen = frames(watched)
    assert seen == plain
    assert error.__context__ is None
    assert error.__cause__ is None
    with step(observed):
        pass
    assert [event.failed for event in observed.of(StepEnded)] == [True, False]


class Hostile:
    """A value of the user's own type, as a static argument: nothing of it but its hash and equality for JAX's cache."""

    touched: list[str]

    def __init__(self) -> None:
        self.touched = []

    def __repr__(self) -> str:
        self.touched.append("repr")
        raise ValueError("repr")

    def __eq__(self, other: object) -> bool:
        if other is not self:
            self.touched.append("eq")
            raise ValueError("eq")
        return True

    __hash__ = object.__hash__


def test_values_of_the_users_types_are_neither_printed_nor_compared(observed: Any) -> None:
    @functools.partial(jax.jit, static_argnums=1)
    def static(x: Any, how: Hostile) -> Any:
        return x * 2

    watched = observed.side.watching.watch(static)
    how = Hostile()
    for size in (3, 4, 3):
        watched(jnp.ones(size), how)
    assert how.touched == []
    assert len(executables(observed, "static")) == 2
    assert all(run > 0 for run in runs(observed))


@jax.tree_util.register_pytree_node_class
class Broken:
    """A pytree whose flattening fails once JAX is done with it."""

    fails = False

    def __init__(self, value: Any) -> None:
        self.value = value

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        if self.fails:
            raise RuntimeError("flattened by somebody else")
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Broken:
        made = cls(children[0])
        made.fails = True
        return made

    @property
    def shape(self) -> Any:
        raise RuntimeError("asked for its shape")


def test_outputs_of_any_kind_pass_through(observed: Any) -> None:
    completions = observed.side.completions
    gone = jnp.ones(3) + 1
    gone.delete()
    outputs: list[Any] = [None, 5, "text", (), {}, [Broken(1)], gone, {"a": [gone]}]
    broken = Broken(1.0)
    broken.fails = True
    for output in [*outputs, broken]:
        watched = observed.side.watching.watch(lambda output=output: output)
        completions._passed_by = 0  # as in a new round
        for _ in range(3):
            completions.armed = True
            assert watched() is output
            assert completions.armed, output  # nothing could be asked: the next call is looked at


def test_where_no_call_can_be_asked_they_are_looked_at_no_more_until_the_next_round(observed: Any) -> None:
    completions = observed.side.completions
    watched = observed.side.watching.watch(lambda: None)
    completions.armed = True
    for _ in range(MOST_PASSED_BY):
        assert completions.armed
        watched()
    assert not completions.armed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_in_the_middle_of_a_step_keeps_nothing_of_what_it_runs(observed: Any) -> None:
    side = observed.side
    watched = side.watching.watch(lambda: None)
    with step(observed):
        watched()
        under_way = side.loops.current.step
        child = os.fork()
        if child == 0:
            status = 1
            try:
                side.forget_in_child()
                for _ in range(100):
                    watched()
                list(Steps(side.loops, (), "train", None, None))
                status = len(side.ring) + len(under_way.later_runs)
            finally:
                os._exit(min(status, 100))
        watched()
        assert under_way.later_runs == [under_way.run]
    assert os.waitpid(child, 0)[1] == 0


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
    def times(watch: Callable[[Any], Any], armed: bool) -> int:
        step = jax.jit(lambda state, batch: (Counted(state.value - batch), batch.sum()))
        early = jax.jit(lambda state: Counted(state.value + 1))
        early(Counted(jnp.ones(3)))
        step, early = watch(step), watch(early)  # the latter has been compiled
        Counted.flattened = 0
        for size in (4, 4, 5, 4, 5):
            observed.side.completions.armed = armed
            step(Counted(jnp.ones(size)), jnp.ones(size))
            early(Counted(jnp.ones(3)))
        return Counted.flattened

    jnp.ones(5).sum()
    plainly = times(lambda function: function, armed=False)
    assert times(observed.side.watching.watch, armed=True) == plainly


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
