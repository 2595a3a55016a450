"""jaxobs.cost() and jaxobs.roofline(): every kind of function and argument, and what they refuse."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxobs
from jaxobs.measure import on_demand as measuring
from jaxobs.model.events import StepEnded
from jaxobs.roofline_model.bottleneck import LONGEST_LATENCY

N = 128
PRODUCT = 2 * N**3
SQUARE = jnp.ones((N, N))


@pytest.fixture(autouse=True)
def _known_peaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Peaks from settings, no calibration of this machine, and no more batches than needed."""
    monkeypatch.setenv("JAXOBS_CACHE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("JAXOBS_PEAK_FLOPS", '{"float32": 1e15}')
    monkeypatch.setenv("JAXOBS_PEAK_BYTES_PER_SECOND", "1e15")
    monkeypatch.setattr(measuring, "MEASURE_SECONDS", 0.02)


def test_a_plain_and_a_jitted_function_cost_the_same() -> None:
    plain = jaxobs.cost(jnp.matmul, SQUARE, SQUARE)
    assert plain == jaxobs.cost(jax.jit(lambda a, b: a @ b), SQUARE, SQUARE)
    assert plain.matrix_flops == PRODUCT
    assert plain.bytes == 3 * N * N * 4
    assert plain.intensity == pytest.approx(PRODUCT / (3 * N * N * 4))


def test_a_cost_needs_shapes_only() -> None:
    shape = jax.ShapeDtypeStruct((N, N), jnp.float32)
    assert jaxobs.cost(jnp.matmul, shape, shape).matrix_flops == PRODUCT


def test_a_cost_runs_nothing() -> None:
    ran = []

    def function(x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda: ran.append(1))
        return x @ x

    cost = jaxobs.cost(function, SQUARE)
    jax.effects_barrier()
    assert not ran
    assert cost.matrix_flops == PRODUCT
    assert any("callback" in name for name in cost.unmodelled)


def test_a_watched_function_is_measured_and_counts_in_no_loop(observed: Any) -> None:
    watched = observed.side.watching.watch(jax.jit(lambda x: x @ x))
    assert jaxobs.cost(watched, SQUARE).matrix_flops == PRODUCT
    assert jaxobs.roofline(watched, SQUARE).seconds > 0
    assert list(observed.side.loops.unmarked.others_called()) == []
    assert observed.of(StepEnded) == []


def test_donated_arguments_are_alive_afterwards() -> None:
    state = {"w": jnp.ones((N, N)), "b": jnp.ones(N)}
    step = jax.jit(lambda s, x: ({"w": s["w"] @ x, "b": s["b"] + 1}, s["b"].sum()), donate_argnums=0)
    roof = jaxobs.roofline(step, state, SQUARE)
    assert roof.cost.matrix_flops == PRODUCT
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(state))


def test_arguments_donated_by_name_are_alive_afterwards() -> None:
    x = jnp.ones((N, N))
    jaxobs.roofline(jax.jit(lambda *, x: x @ x, donate_argnames="x"), x=x)
    assert not x.is_deleted()


def test_a_large_donated_argument_is_copied_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a cache of which a call updates one row in microseconds."""
    cache, alive = jnp.ones((1024, 1024)), [0]
    update = jax.jit(lambda rows, row: rows.at[3].set(row), donate_argnums=0)

    def called(rows: jax.Array, row: jax.Array) -> Any:
        alive.append(sum(array.nbytes for array in jax.live_arrays()))
        return update(rows, row)

    called.lower = update.lower  # type: ignore[attr-defined]
    monkeypatch.setattr(measuring, "MAX_COPIES", 4 * cache.nbytes)
    before = sum(array.nbytes for array in jax.live_arrays())
    assert jaxobs.roofline(called, cache, jnp.ones(1024)).seconds > 0
    assert max(alive) < before + 6 * cache.nbytes


@pytest.mark.parametrize("donated", [{}, {"donate_argnums": 0}])
def test_static_arguments_stay_static(donated: dict[str, int]) -> None:
    @partial(jax.jit, static_argnums=1, static_argnames="mode", **donated)
    def power(x: jax.Array, times: int, *, mode: str) -> jax.Array:
        assert isinstance(times, int)
        assert mode == "chain"
        for _ in range(times):
            x = x @ x
        return x

    assert jaxobs.cost(power, SQUARE, 3, mode="chain").matrix_flops == 3 * PRODUCT
    assert jaxobs.roofline(power, jnp.ones((N, N)), 3, mode="chain").cost.matrix_flops == 3 * PRODUCT


class Model:
    """Methods, jitted with a static object, watched, and plain."""

    @partial(jax.jit, static_argnums=0)
    def jitted(self, x: jax.Array) -> jax.Array:
        return x @ x

    def plain(self, x: jax.Array) -> jax.Array:
        return x @ x


def test_methods_keep_their_object(observed: Any) -> None:
    class Other(Model):
        watched = observed.side.watching.watch(Model.jitted)

    model = Other()
    for method in (model.jitted, model.plain, model.watched):
        assert jaxobs.cost(method, SQUARE).matrix_flops == PRODUCT
        assert jaxobs.roofline(method, SQUARE).cost.matrix_flops == PRODUCT


def test_what_compiles_to_something_else_is_refused() -> None:
    class Own:
        def __call__(self) -> None: ...

        def lower(self) -> Any:
            return self

        def compile(self) -> int:
            return 3

    with pytest.raises(TypeError, match=r"compiles to an object of type int: give a function of jax\.jit"):
        jaxobs.cost(Own())


def test_keywords_are_the_functions_own_whatever_their_names() -> None:
    def function(
        x: jax.Array,
        *,
        flops: float,
        bytes: Any,  # noqa: A002
        seconds: Any,
        dtype: Any,
        function: Any,
    ) -> Any:
        assert bytes is None
        assert dtype == jnp.float16
        return x.astype(dtype) * flops * seconds * function

    roof = jaxobs.roofline(
        partial(function, dtype=jnp.float16), SQUARE, flops=2.0, bytes=None, seconds=SQUARE, function=3.0
    )
    assert roof.cost.vector_flops > 0
    assert jaxobs.cost(lambda **named: named["function"] @ named["args"], function=SQUARE, args=SQUARE).matrix_flops == (
        PRODUCT
    )  # fmt: skip


def test_numpy_arguments_are_put_on_the_device_outside_the_time() -> None:
    roof = jaxobs.roofline(lambda x: x[0] + 1, np.ones((2, 2048, 2048), np.float32))
    assert roof.cost.bytes == pytest.approx(2 * 4 * 2048 * 2048, rel=0.01)


def test_a_time_is_that_of_the_device_and_not_of_its_dispatch() -> None:
    compiled = jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda _, y: y @ x / N, x))
    big = jnp.ones((512, 512))
    compiled(big).block_until_ready()
    alone = []
    for _ in range(10):
        started = time.perf_counter()
        compiled(big).block_until_ready()
        alone.append(time.perf_counter() - started)
    roof = jaxobs.roofline(compiled, big)
    assert roof.seconds > 0.3 * min(alone)  # its dispatch takes microseconds
    assert roof.spread_seconds is not None
    assert roof.spread_seconds >= 0


def test_the_figures_of_a_roofline_fit_together() -> None:
    small = jnp.ones((32, 32))
    product = 2 * 32**3
    roof = jaxobs.roofline(jnp.matmul, small, small)
    assert roof.achieved_flops_per_second == pytest.approx(product / roof.seconds)
    bound = max(product, 3 * 32 * 32 * 4) / 1e15
    assert roof.attainable_flops_per_second == pytest.approx(product / bound)
    assert roof.efficiency == pytest.approx(bound / roof.seconds)
    assert roof.bound == "compute"
    launched = roof.seconds - bound <= LONGEST_LATENCY  # not where other programs have the processors
    assert roof.bottleneck == ("latency" if launched else "unknown")
    assert 0 <= roof.confidence <= 1
    assert roof.mfu == roof.hfu == pytest.approx(product / roof.seconds / 1e15)
    assert (roof.reason, roof.utilization_reason) == (None, None)
    assert (roof.device, roof.peaks.matrix["float32"].provenance) == ("cpu", "user")
    assert json.loads(json.dumps(roof.to_dict()))["cost"]["matrix_flops"] == product


def test_a_run_far_longer_than_its_work_and_than_launching_it_is_no_latency() -> None:
    roof = jaxobs.roofline(jax.jit(partial(jnp.sort, axis=1)), jnp.ones((512, 512)))
    assert roof.seconds > 1e-3
    assert roof.bottleneck == "unknown"
    assert "it took far longer than its work and launching it can take" in str(roof)


def test_mfu_leaves_out_what_was_rematerialised_and_hfu_does_not() -> None:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        layer = jax.checkpoint(lambda y: jnp.tanh(jnp.tanh(y @ w) @ w))
        return jnp.sum(layer(layer(x)))

    roof = jaxobs.roofline(jax.grad(loss), SQUARE, SQUARE)
    again = roof.cost.rematerialized_flops
    assert again > 0
    assert roof.hfu == pytest.approx(roof.cost.matrix_flops / roof.seconds / 1e15)
    assert roof.mfu == pytest.approx((roof.cost.matrix_flops - again) / roof.seconds / 1e15)


def test_mfu_of_the_users_own_flops() -> None:
    roof = jaxobs.roofline(jnp.matmul, SQUARE, SQUARE)
    mine = roof.utilization(model_flops=PRODUCT / 2)
    assert roof.mfu is not None
    assert mine.mfu == pytest.approx(roof.mfu / 2)
    assert mine.hfu == roof.hfu
    assert roof.utilization(model_flops=0.0).mfu is None


def test_faster_than_memory_is_shown_as_it_is_and_called_cache_resident(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAXOBS_PEAK_BYTES_PER_SECOND", "1000")
    roof = jaxobs.roofline(jnp.add, SQUARE, SQUARE)
    assert roof.efficiency is not None
    assert roof.efficiency > 1
    assert roof.bound == "cache_resident"
    assert roof.bottleneck == "memory"
    assert roof.reason is not None
    assert "cache" in roof.reason


def test_without_peaks_everything_that_needs_them_is_absent_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("JAXOBS_PEAK_FLOPS")
    monkeypatch.delenv("JAXOBS_PEAK_BYTES_PER_SECOND")
    roof = jaxobs.roofline(jnp.matmul, SQUARE, SQUARE)
    assert roof.efficiency is roof.attainable_flops_per_second is roof.bound is roof.mfu is roof.hfu is None
    assert roof.bottleneck == "unknown"
    assert roof.achieved_flops_per_second is not None
    assert roof.reason is not None
    assert "jaxobs calibrate" in roof.reason
    assert roof.utilization_reason == "no peak for matrix float32"


def test_a_lower_bound_says_why() -> None:
    roof = jaxobs.roofline(lambda n, x: jax.lax.fori_loop(0, n, lambda _, y: y @ x, x), 5, SQUARE)
    assert not roof.cost.exact
    assert roof.reason is not None
    assert roof.reason.startswith("a lower bound: ")
    assert roof.bottleneck == "unmodelled"


def test_what_is_no_function_is_refused() -> None:
    not_a_function: Any = 3.0
    with pytest.raises(
        TypeError, match=r"roofline\(\) takes a function first, not an object of type 'float'"
    ):
        jaxobs.roofline(not_a_function)
    with pytest.raises(TypeError, match=r"cost\(\) takes a function first, not an object of type 'float'"):
        jaxobs.cost(not_a_function)
    with pytest.raises(ValueError, match=r"jax\.ShapeDtypeStruct is for cost"):
        jaxobs.roofline(jnp.sum, jax.ShapeDtypeStruct((4,), jnp.float32))


def test_the_functions_own_error_comes_through() -> None:
    with pytest.raises(TypeError, match="dot_general"):
        jaxobs.cost(jnp.matmul, jnp.ones((2, 3)), jnp.ones((2, 3)))


def test_timing_compiles_nothing_again() -> None:
    compiled: list[str] = []

    def listener(event: str, duration_secs: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    function = jax.jit(lambda x: x @ x + 17)
    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        jaxobs.roofline(function, SQUARE)
    finally:
        if hasattr(jax.monitoring, "unregister_event_duration_listener"):
            jax.monitoring.unregister_event_duration_listener(listener)
        else:
            jax.monitoring.clear_event_listeners()  # before 0.8 there was no other way
    assert len(compiled) == 1
