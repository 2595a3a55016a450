"""With JAXOBS_LOCATE_NAN the primitive and the line are told in which a recorded value began not to be finite."""

from __future__ import annotations

import gc
import inspect
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxobs
from jaxobs.derive.loops.recorded import NOT_FINITE
from jaxobs.jax_compat.equations import described
from jaxobs.probe.steps.values import RecordedValues
from jaxobs.vocabulary.text import EAGER

IN_GRADIENT = ", in its gradient" if jax.__version_info__ >= (0, 8) else ""
"""What JAX tells of an equation of a backward pass."""

ONES = np.ones(4, np.float32)
ZERO = np.array([1, 2, 0, 3], np.float32)


def log_of_zero(w: Any, x: Any) -> Any:
    safe = x + 1.0
    entropy = x * jnp.log(x)  # here
    return entropy.sum() + safe.sum() + w.sum()


def zero_over_zero(w: Any, x: Any) -> Any:
    centred = x - x[0]
    scaled = centred / centred.max()  # here
    return scaled.sum() + w.sum()


def overflow_in_bfloat16(w: Any, x: Any) -> Any:
    large = x.astype(jnp.bfloat16) * 1e30
    squares = large * large  # here
    return squares.astype(jnp.float32).sum() + w.sum()


def square_root_at_zero(w: Any, x: Any) -> Any:
    rooted = jnp.sqrt(w * x)  # here
    return rooted.sum()


def in_a_scan(w: Any, x: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        smallest = jnp.where(row > 99, -jnp.inf, row)
        return carry * smallest, jax.lax.cond(row > 0, lambda: row, lambda: jnp.log(row - 1))  # here

    _, rows = jax.lax.scan(body, w.sum(), x)
    return rows.sum()


@jax.jit
def masked_softmax(x: Any) -> Any:
    masked = jnp.where(x > 1, x, -jnp.inf)  # here
    return jax.nn.softmax(masked)


def in_a_function_jitted_inside(w: Any, x: Any) -> Any:
    elsewhere = jnp.where(x > 2, x, -jnp.inf).max()  # the first trace of the same function of JAX's
    return masked_softmax(1 / x).sum() + w.sum() + jnp.minimum(elsewhere, 0)


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Iterable[Callable[..., jaxobs.Observer]]:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    made: list[jaxobs.Observer] = []

    def instrument(**settings: Any) -> jaxobs.Observer:
        made.append(jaxobs.instrument(**settings))
        return made[-1]

    yield instrument
    for obs in made:
        obs.shutdown()


def trained(obs: jaxobs.Observer, loss_of: Any, batches: Iterable[Any], **jit: Any) -> Any:
    """Train with this loss, and record it in each step."""

    def step(weights: Any, batch: Any) -> Any:
        loss, gradient = jax.value_and_grad(loss_of)(weights, batch["x"])
        return weights - 0.1 * gradient, loss

    watched = obs.watch(jax.jit(step, **jit))
    weights = jnp.ones(4)
    for x in obs.steps(batches):
        weights, loss = watched(weights, {"x": x})
        obs.record(loss=loss)
    return weights


def said(caplog: pytest.LogCaptureFixture) -> str:
    (line,) = [
        record.getMessage() for record in caplog.records if "the recorded value" in record.getMessage()
    ]
    return line


def place(function: Any) -> str:
    """The line that is marked in it, as it is told."""
    lines, first = inspect.getsourcelines(getattr(function, "__wrapped__", function))
    (at,) = [number for number, line in enumerate(lines) if line.rstrip().endswith("# here")]
    return f"probe/test_locate_nan.py:{first + at} in "


@pytest.mark.parametrize(
    ("loss_of", "batches", "word", "first", "last"),
    [
        (log_of_zero, [ONES, ZERO], "nan", "`mul`", "inf first came out of `log` at {}"),
        (zero_over_zero, [ZERO, ONES], "nan", "`div`", "it was given float32[4] 0; float32[] 0"),
        (overflow_in_bfloat16, [ONES], "inf", "`mul`", "it was given bfloat16[4] 1e+30"),
        (square_root_at_zero, [ONES, 0 * ONES, ONES], "nan", "`mul`", IN_GRADIENT),
        (in_a_scan, [ONES, ZERO], "nan", "`log`", "it was given float32[] -1"),
        (in_a_function_jitted_inside, [ONES], "nan", "`sub`", "of `step`; it was given"),
    ],
)
def test_primitive_line_and_operands_are_named(
    loss_of: Any,
    batches: Any,
    word: str,
    first: str,
    last: str,
    observer: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    obs = observer(locate_nan=True)
    executables = obs._side.executables
    before = executables.count
    trained(obs, loss_of, batches)
    line = said(caplog)
    here = place(masked_softmax if loss_of is in_a_function_jitted_inside else loss_of)
    assert line.startswith(
        f"jaxobs: the recorded value `loss` is {word}: {word} first came out of {first} at "
    )
    assert here in line
    if loss_of is not in_a_function_jitted_inside:
        assert last.format(here) in line
    obs.shutdown(60)
    found = obs.final_snapshot
    assert found is not None
    reason = found["loops"]["train"]["recorded"]["loss_reason"]
    assert line.partition(f"is {word}: ")[2] in reason
    assert reason.startswith(NOT_FINITE.partition("{}")[0])
    assert "first came out of" in found.summary()
    assert found["functions"]["step"]["compilations"] == 1, (
        "what is run once more is none of the job's compiles"
    )
    told = {name: each["compilations"] for name, each in found["functions"].items() if name != EAGER}
    assert executables.count - before == sum(told.values())


def test_what_came_in_is_told_with_the_argument(observer: Any, caplog: pytest.LogCaptureFixture) -> None:
    bad = np.array([1, np.inf, 2, 3], np.float32)
    trained(observer(locate_nan=True), lambda w, x: (w * x).sum(), [ONES, bad, ONES])
    assert said(caplog) == (
        "jaxobs: the recorded value `loss` is inf: inf came in with the argument `batch['x']` of `step`, called at "
        f"test_locate_nan.py:{trained.__code__.co_firstlineno + 10}: float32[4] from 1 to 3, 1 of 4 not finite"
    )


@pytest.mark.parametrize("read", [float, jax.device_get, np.float32])
def test_weights_that_are_updated_elsewhere_are_followed(
    read: Callable[[Any], Any], observer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    obs = observer(locate_nan=True)
    grad = obs.watch(jax.jit(jax.value_and_grad(square_root_at_zero)))
    weights = jnp.ones(4)
    for x in obs.steps([ONES, 0 * ONES, ONES]):
        loss, gradient = grad(weights, x)
        weights = weights - 0.1 * gradient
        obs.record(loss=read(loss))
    assert f"at {place(square_root_at_zero)}square_root_at_zero{IN_GRADIENT}" in said(caplog)


def test_values_are_read_by_explicit_transfers(observer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    get = jax.device_get
    monkeypatch.setattr(jax, "device_get", lambda value: threads.append(get_ident()) or get(value))
    observer(locate_nan=True).record(loss=jnp.float32(jnp.nan))
    assert get_ident() in threads, "an implicit one is what `jax_transfer_guard` forbids"


def test_what_the_script_changes_in_place_is_told_as_it_was_given(
    observer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @jax.jit
    def step(state: Any, x: Any) -> Any:
        loss, gradient = jax.value_and_grad(square_root_at_zero)(state["w"], x)
        return {"w": state["w"] - 0.1 * gradient}, loss

    def refilled(batches: Iterable[Any]) -> Iterable[Any]:
        buffer = np.empty(4, np.float32)
        for batch in batches:
            buffer[:] = batch
            yield buffer

    obs = observer(locate_nan=True)
    watched, state = obs.watch(step), {"w": jnp.ones(4)}
    for x in obs.steps(refilled([ONES, 0 * ONES, -ONES])):
        changed, loss = watched(state, x)
        state.update(changed)
        obs.record(loss=loss)
    line = said(caplog)
    assert f"nan first came out of `mul` at {place(square_root_at_zero)}" in line
    assert line.endswith("it was given float32[] 0.5; float32[4] 0")


def test_a_value_in_the_place_of_a_freed_output_is_not_taken_for_it(
    observer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    obs = observer(locate_nan=True)
    step, mean = obs.watch(jax.jit(lambda x: (jnp.log(x), 2 * x))), jax.jit(jnp.mean)
    large = jnp.ones((300, 300))
    freed = set[int]()
    for _ in range(200):
        mapped, doubled = step(large)
        freed.add(id(doubled))
        del doubled
        if id(loss := mean(mapped)) in freed:
            large = -large  # from now on not finite
        obs.record(loss=loss)
    assert "nan first came out of `log`" in said(caplog)


def test_an_array_that_is_sharded_in_its_type_is_described() -> None:
    if jax.__version_info__ < (0, 8):
        pytest.skip("JAX has no such type, or makes none of a mesh")
    devices = np.array(jax.devices()[:1])
    kind = jax.sharding.AxisType.Explicit
    mesh = jax.sharding.Mesh(devices, ("data",), axis_types=(kind,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    array = jax.device_put(np.array([3, np.nan, -1, np.inf], np.float32), sharding)
    assert described(array) == "float32[4] from -1 to 3, 2 of 4 not finite"


def test_a_call_of_another_thread_meanwhile_is_no_error(
    observer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    obs = observer(locate_nan=True)
    side = obs._side.recorded
    log, other = obs.watch(jax.jit(jnp.log)), obs.watch(jax.jit(jnp.sin))

    class Interrupted(deque[Any]):
        def __iter__(self) -> Any:
            other(1.0)  # as another thread may, between two looks
            return super().__iter__()

    other(1.0)
    loss = log(-1.0)
    side._calls.update({function: Interrupted(calls) for function, calls in side._calls.items()})
    obs.record(loss=loss)
    assert "nan first came out of `log`" in said(caplog)


def test_donated_arguments_are_never_kept_and_it_is_said_what_to_do(
    observer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bad = np.array([1, np.nan, 2, 3], np.float32)
    trained(observer(locate_nan=True), lambda w, x: (w * x).sum(), [ONES, bad], donate_argnums=0)
    line = said(caplog)
    assert "`step` cannot be run once more: its arguments were donated and are gone" in line
    assert "run without donate_argnums" in line
    assert line.endswith(
        "Of those left, not finite: `batch['x']` (float32[4] from 1 to 3, 1 of 4 not finite)"
    )


def test_what_would_happen_twice_is_not_run(observer: Any, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []

    def loss_of(w: Any, x: Any) -> Any:
        jax.debug.callback(seen.append, x[0])
        return (w * x / 0.0).sum()

    trained(observer(locate_nan=True), loss_of, [ONES])
    jax.effects_barrier()
    assert "it prints or calls back, which would happen twice" in said(caplog)
    assert len(seen) == 1


def test_it_is_told_once_a_run_and_nothing_is_kept_after(
    observer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    obs = observer(locate_nan=True)
    trained(obs, zero_over_zero, [ZERO, ONES, ONES])
    assert "`div`" in said(caplog)
    kept = jnp.ones(3)
    obs.watch(jax.jit(jnp.sum))(kept)
    reference = weakref.ref(kept)
    del kept
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("on", [False, True])
def test_arguments_are_kept_only_where_it_was_asked_for(on: bool, observer: Any) -> None:
    obs = observer(locate_nan=on)
    total = obs.watch(jax.jit(jnp.sum))
    assert (type(obs._side.recorded) is RecordedValues) is not on
    references = []
    for _ in range(5):
        x = jnp.ones(3)
        total(x).block_until_ready()
        references.append(weakref.ref(x))
        del x
    gc.collect()
    assert [reference() is not None for reference in references] == [False] * 3 + [on] * 2
    obs.shutdown()
    gc.collect()
    assert [reference for reference in references if reference() is not None] == []


@jax.tree_util.register_pytree_node_class
class Flattened:
    """A pytree that notes when it is flattened."""

    def __init__(self, x: Any, note: Callable[[], object]) -> None:
        self.x, self.note = x, note

    def tree_flatten(self) -> tuple[tuple[Any], Callable[[], object]]:
        self.note()
        return (self.x,), self.note

    @classmethod
    def tree_unflatten(cls, note: Callable[[], object], children: Iterable[Any]) -> Any:
        (x,) = children
        return cls(x, note)


def test_once_it_has_looked_no_argument_is_flattened_any_more(observer: Any) -> None:
    notes: list[int] = []
    given = Flattened(jnp.ones(3), lambda: notes.append(1))
    obs, total = observer(locate_nan=True), jax.jit(lambda tree: tree.x.sum())
    watched = obs.watch(total)
    watched(given)
    obs.record(loss=float("nan"))
    notes.clear()
    total(given)
    by_jax = len(notes)
    watched(given)
    assert len(notes) == 2 * by_jax


def test_nothing_is_kept_of_a_call_during_which_it_ends(observer: Any) -> None:
    obs, ended = observer(locate_nan=True), []

    def end() -> None:  # as another thread may, while what the function returned is looked at
        if any(frame.function == "_keep" for frame in inspect.stack()):
            ended.append(obs._side.recorded.let_go())

    x = jnp.ones(3)
    obs.watch(jax.jit(lambda tree: tree.x.sum()))(Flattened(x, end))
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert ended
    assert reference() is None


def test_an_error_of_the_function_is_shown_as_without(observer: Any) -> None:
    @observer(locate_nan=True).watch
    @jax.jit
    def step(x: Any) -> Any:
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own") as raised:
        step(1.0)
    assert not [
        entry for entry in raised.traceback if "jaxobs" in str(entry.path) and "tests" not in str(entry.path)
    ]


def test_a_value_that_nothing_watched_made_says_so(observer: Any, caplog: pytest.LogCaptureFixture) -> None:
    observer(locate_nan=True).record(loss=float("nan"))
    assert "no watched function was called before: obs.watch() the one that computes it" in said(caplog)
