"""Arrays that are followed from when they are made: all of them are found, or it is said that they are not."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaxobs.probe import followed_arrays
from jaxobs.probe.allowance import Allowance
from jaxobs.probe.followed_arrays import (
    LOOK_AT_MOST,
    PARDON,
    REFUSALS,
    SUPPORTED,
    FollowedArrays,
    NotCounted,
)
from jaxobs.probe.jax_internals import array_type
from jaxobs.probe.live_arrays import Census, read_arrays
from jaxobs.probe.young_arrays import young_arrays

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="this collector does not show arrays in small portions")

FOLLOW_FROM, BEGIN_AT_MOST = 400, 1_200
"""Fewer than it really takes, so that the tests need not make as many."""

MANY = BEGIN_AT_MOST + 400


def make(count: int, shape: tuple[int, ...] = (3,)) -> list[Any]:
    """As many arrays, one by one."""
    return [jnp.zeros(shape) for _ in range(count)]


def counted(followed: FollowedArrays) -> Counter[tuple[str, str]]:
    """The census of the followed arrays, by shape and type."""
    census = Census(followed.listings())
    assert census.advance(10**10)
    groups = census.groups(1_000_000)
    assert sum(group.count for group in groups) == census.count
    found: Counter[tuple[str, str]] = Counter()
    for group in groups:
        found[group.shape, group.dtype] += group.count
    return found


def listed() -> Counter[tuple[str, str]]:
    """What JAX lists."""
    arrays = jax.live_arrays()  # type: ignore[no-untyped-call]
    return Counter((str(array.shape), str(array.dtype)) for array in arrays)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Iterator[FollowedArrays]:
    """Begun without any pause after others, with few arrays; what time looks take is no matter here."""
    monkeypatch.setattr(followed_arrays, "FOLLOW_FROM", FOLLOW_FROM)
    monkeypatch.setattr(followed_arrays, "BEGIN_AT_MOST", BEGIN_AT_MOST)
    monkeypatch.setattr(followed_arrays, "STEP_BURST", 10**12)
    monkeypatch.setattr(followed_arrays, "JOB_BURST", 10**12)
    jnp.zeros(3).block_until_ready()
    gc.collect()
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # 2 000 from Python 3.13: fewer passes than these tests make arrays for
    made = FollowedArrays()
    made.start(lambda hook: hook)
    yield made
    made.stop()
    gc.set_threshold(*thresholds)


def test_what_is_counted_is_what_jax_lists(followed: FollowedArrays) -> None:
    kept = make(MANY)
    assert followed.following, followed.reason
    kept += [*make(50, (7, 11)), jnp.zeros(5, jnp.int8)]
    assert counted(followed) == listed()
    del kept[:2_000]
    assert counted(followed) == listed()


def test_each_array_is_counted_once_whatever_the_collector_does(followed: FollowedArrays) -> None:
    kept = make(MANY)
    for generation in (0, 1, 2):
        kept += make(100, (generation + 1, 5))
        gc.collect(generation)
        kept += make(30, (generation + 1, 6))
        assert counted(followed) == listed()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("make"), st.integers(1, 900)),
            st.tuples(st.just("drop"), st.integers(1, 900)),
            st.tuples(st.just("delete"), st.integers(1, 20)),
            st.tuples(st.just("collect"), st.integers(0, 2)),
            st.tuples(st.just("replace"), st.integers(1, 300)),
            st.tuples(st.just("count"), st.just(0)),
        ),
        max_size=12,
    )
)
def test_after_anything_the_job_does_the_census_is_what_jax_lists(
    followed: FollowedArrays, actions: list[tuple[str, int]]
) -> None:
    shapes = itertools.cycle([(1,), (2, 3), (4,), ()])
    kept = make(MANY)
    for action, amount in actions:
        if action == "make":
            kept += make(amount, next(shapes))
        elif action == "drop":
            del kept[-amount:]
        elif action == "delete":
            for array in kept[:amount]:
                array.delete()
        elif action == "collect":
            gc.collect(amount)
        elif action == "replace":
            for position in range(min(amount, len(kept))):
                kept[position] = jnp.zeros(next(shapes))
        else:
            assert counted(followed) == listed()
    if followed.following:
        assert counted(followed) == listed()


def test_donated_arrays_do_not_count(followed: FollowedArrays) -> None:
    kept = make(MANY)
    (given_away,) = make(1, (31, 17))
    gc.collect(0)
    jax.jit(lambda x: x + 1, donate_argnums=0)(given_away).block_until_ready()
    assert counted(followed) == listed()
    assert given_away.is_deleted()
    assert len(kept) == MANY


def test_no_array_is_kept_alive(followed: FollowedArrays) -> None:
    kept = make(MANY)
    listings = followed.listings()
    next(listings)
    gc.disable()  # nothing but the last reference may be needed
    try:
        gone = [weakref.ref(array) for array in kept]
        kept.clear()
        assert not any(reference() is not None for reference in gone)
    finally:
        gc.enable()


def test_arrays_that_went_meanwhile_are_no_census(followed: FollowedArrays) -> None:
    kept = make(MANY)
    listings = followed.listings()
    next(listings)
    kept.clear()
    with pytest.raises(NotCounted, match="were gone before they were counted"):
        list(listings)


def test_what_a_frozen_collector_hides_is_no_census(followed: FollowedArrays) -> None:
    kept = make(MANY)
    gc.collect()
    gc.disable()
    try:
        kept += make(600)
        gc.freeze()
        with pytest.raises(NotCounted, match="not seen"):
            counted(followed)
    finally:
        gc.unfreeze()
        gc.enable()
    assert len(kept) == MANY + 600 > PARDON


def test_a_collector_that_is_off_is_no_census(followed: FollowedArrays) -> None:
    kept = make(MANY)
    gc.disable()
    try:
        kept += make(LOOK_AT_MOST + 10)
        with pytest.raises(NotCounted, match="not gone through"):
            counted(followed)
        gc.collect()
        assert not followed.following
        assert "too seldom" in followed.reason
    finally:
        gc.enable()
    assert len(kept) > MANY


def test_a_callback_that_somebody_took_out_is_no_census(followed: FollowedArrays) -> None:
    kept = make(MANY)
    gc.callbacks.remove(followed.collecting)
    kept += make(2_000)
    gc.collect()
    with pytest.raises(NotCounted):
        counted(followed)


def test_arrays_that_exist_when_it_starts_are_followed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_arrays, "BEGIN_AT_MOST", BEGIN_AT_MOST)
    kept = make(MANY, (13,))
    late = FollowedArrays()
    late.start(lambda hook: hook)
    try:
        assert late.following
        kept += make(800, (14,))
        assert counted(late) == listed()
    finally:
        late.stop()


def test_few_arrays_are_not_followed(followed: FollowedArrays) -> None:
    kept = make(MANY)
    assert followed.following
    del kept[100:]
    gc.collect()
    for _ in followed.upkeep():
        pass
    if sum(listed().values()) < FOLLOW_FROM // 2:  # else other tests have left some
        assert not followed.following
        for _ in followed.upkeep():
            pass
        assert len(followed._seen) == 0
    kept += make(MANY)
    assert followed.following
    assert counted(followed) == listed()


def test_references_to_arrays_that_are_gone_are_cleared_away(
    followed: FollowedArrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_arrays, "SPARE_REFERENCES", 100)
    kept = make(MANY)
    for _ in range(4):
        kept = kept[:1] + make(MANY)
    before = len(followed._seen)
    for _ in followed.upkeep():
        pass
    assert len(followed._seen) < before / 2
    assert counted(followed) == listed()


def test_what_takes_too_long_is_given_up() -> None:
    allowance = Allowance(1_000_000, 0.0)
    assert allowance.spend(600_000)
    assert not allowance.spend(600_000)


def test_a_job_that_makes_arrays_too_fast_is_left_alone(
    followed: FollowedArrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_arrays, "STEP_BURST", 1)
    monkeypatch.setattr(followed_arrays, "STEP_SHARE", 0.0)
    kept = make(MANY)
    assert not followed.following
    assert "would delay the job" in followed.reason
    with pytest.raises(NotCounted, match="would delay the job"):
        counted(followed)
    assert len(kept) == MANY


def test_only_the_type_of_an_object_is_asked() -> None:
    class Touchy:
        asked = 0

        @property  # type: ignore[misc]
        def __class__(self) -> Any:
            Touchy.asked += 1
            return int

        def __getattribute__(self, name: str) -> Any:
            Touchy.asked += 1
            return object.__getattribute__(self, name)

        def __eq__(self, other: object) -> bool:
            Touchy.asked += 1
            return False

        __hash__ = None  # type: ignore[assignment]

    kind = array_type()
    assert kind is not None
    gc.disable()
    try:
        kept: list[Any] = [Touchy() for _ in range(10)]
        kept.append(jnp.zeros(3))
        before = sys.getrefcount(kept[0])
        found: list[int] = []
        young_arrays(kind, id, found.extend)
        before_and_after = before, sys.getrefcount(kept[0])
    finally:
        gc.enable()
    assert id(kept[-1]) in found
    assert before_and_after == (before, before)  # let go of without the collector
    assert Touchy.asked == 0


def test_an_array_that_is_just_being_made_is_no_array_yet() -> None:
    kind: Any = array_type()
    assert kind.__new__(kind).is_deleted()


def test_tuples_that_other_threads_are_building_are_not_in_the_way(followed: FollowedArrays) -> None:
    failures: list[BaseException] = []
    built = 0
    ended = threading.Event()

    def build() -> None:
        nonlocal built
        try:
            while not ended.is_set():
                assert len(tuple([number] for number in range(3_000))) == 3_000
                built += 1
        except Exception as error:  # noqa: BLE001  # for the test to show
            failures.append(error)

    kept = make(MANY)
    kind = array_type()
    assert kind is not None
    thread = threading.Thread(target=build)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    passes, looks = followed._passes, 0
    try:
        deadline = time.monotonic() + 30
        while (looks < 200 or built < 20) and not failures and time.monotonic() < deadline:
            found: list[weakref.ref[Any]] = []
            young_arrays(kind, weakref.ref, found.extend)
            looks += 1
            if looks % 20 == 0:
                with contextlib.suppress(NotCounted):  # passes that other threads come in between miss arrays
                    counted(followed)
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        thread.join()
    assert failures == []
    assert looks >= 200
    assert built >= 20
    assert followed._passes > passes  # which look as well
    assert len(kept) == MANY


class Meetings:
    """Traces: the most references to an array that another thread could meet between two instructions of jaxobs."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.most = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if "/jaxobs/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        self.most = max(self.most, sys.getrefcount(self.array))
        return self


def most_references(work: Callable[[], object], array: Any) -> int:
    """As above, while it works."""
    meetings = Meetings(array)
    before = sys.gettrace()
    sys.settrace(meetings)
    try:
        work()
    finally:
        sys.settrace(before)
    return meetings.most


def test_no_other_thread_meets_an_array_that_is_held(
    followed: FollowedArrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job may let go of it at any moment, to make room for the next."""
    (array,) = kept = make(1)
    references = [weakref.ref(array)]
    usual = most_references(lambda: Allowance(1, 0.0).spend(1), array)
    in_reading = most_references(lambda: read_arrays(references), array)
    late = FollowedArrays()
    monkeypatch.setattr(followed_arrays, "BEGIN_AT_MOST", 0)
    try:
        in_beginning = most_references(lambda: late.start(lambda hook: hook), array)
        assert late.following
        in_listing = most_references(lambda: list(late.listings()), array)
    finally:
        late.stop()
    assert usual > 0
    assert (in_reading, in_beginning, in_listing) == (usual, usual, usual)
    assert len(kept) == 1


def test_a_job_with_few_arrays_pays_for_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(followed_arrays, "FOLLOW_FROM", 10**6)
    monkeypatch.setattr(followed_arrays, "BEGIN_AT_MOST", 2 * 10**6)
    few = FollowedArrays()
    few.start(lambda hook: lambda: calls.append(hook))
    try:
        gc.collect()
        assert few._passes > 0
        assert calls == []
    finally:
        few.stop()


def test_nothing_stays_hooked_and_other_callbacks_stay_as_they_are() -> None:
    class Hostile:
        def __call__(self, phase: str, info: dict[str, Any]) -> None:
            pass

        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    hostile = Hostile()
    before = list(gc.callbacks)
    gc.callbacks.insert(0, hostile)
    try:
        hooked = FollowedArrays()
        hooked.start(lambda hook: hook)
        assert gc.callbacks[-1] is before[-1]  # some programs take JAX's own out if it is the last
        assert len(gc.callbacks) == len(before) + 2
        hooked.stop()
        hooked.stop()
        assert gc.callbacks[0] is hostile
    finally:
        del gc.callbacks[0]
    assert list(map(id, gc.callbacks)) == list(map(id, before))


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_on_or_off_as_it_was(enabled: bool) -> None:
    def fails(array: object) -> object:
        raise MemoryError

    kind = array_type()
    assert kind is not None
    gc.collect()
    gc.disable()
    kept = make(3)
    if enabled:
        gc.enable()
    try:
        found: list[int] = []
        young_arrays(kind, id, found.extend)
        assert gc.isenabled() is enabled
        with pytest.raises(MemoryError):
            young_arrays(kind, fails, found.extend)
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
    assert len(kept) == 3


def test_after_a_look_that_stopped_the_job_there_is_never_another(
    followed: FollowedArrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = make(MANY)
    monkeypatch.setattr(followed_arrays, "STEP_BURST", 1)
    gc.collect()
    assert followed._not_before == 0.0  # what was allowed when it began is not spent
    followed._of_step = Allowance(1, 0.0)
    kept += make(10)
    gc.collect()
    assert not followed.following
    assert followed._not_before == math.inf


def test_what_never_comes_to_a_census_is_not_paid_for_any_longer(followed: FollowedArrays) -> None:
    kept = make(MANY)
    for _ in range(REFUSALS - 1):
        followed.refused()
    assert followed.following
    followed.refused()
    assert not followed.following
    assert "came to nothing" in followed.reason
    assert len(kept) == MANY


def test_ctrl_c_during_a_look_is_not_lost(followed: FollowedArrays, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    followed.following = True
    monkeypatch.setattr(followed, "_guarded_look", interrupted)
    gc.collect()
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        list(followed.upkeep())


def test_what_a_signal_handler_raises_during_a_look_is_not_lost(
    followed: FollowedArrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Preempted(BaseException):
        pass

    def handler(number: int, frame: FrameType | None) -> None:
        raise Preempted

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        followed.following = True
        monkeypatch.setattr(followed, "_guarded_look", lambda: signal.raise_signal(signal.SIGUSR1))
        gc.collect()
        monkeypatch.undo()
        with pytest.raises(Preempted):
            list(followed.upkeep())
        list(followed.upkeep())  # once
    finally:
        signal.signal(signal.SIGUSR1, before)


IN_A_COMPILE = """
import threading, time
import jax, jax.numpy as jnp
from jaxobs.probe import followed_arrays
from jaxobs.probe.followed_arrays import FollowedArrays
from jaxobs.probe.live_arrays import Census

followed_arrays.BEGIN_AT_MOST = 50  # so that these arrays come too fast
followed_arrays.FOLLOW_FROM = 51
followed = FollowedArrays()
followed.start(lambda hook: hook)
kept = [jnp.float32(number) for number in range(500)]
assert not followed.following
ended = threading.Event()

def turns():
    while not ended.wait(0.02) and not followed.following:
        for _ in followed.upkeep():
            pass

thread = threading.Thread(target=turns)
thread.start()

@jax.jit
def slow_to_compile(x):
    for number in range(200):
        x = jnp.sin(x) @ x + number
    return x

slow_to_compile.lower(jnp.ones((8, 8))).compile()
ended.set()
thread.join()
assert followed.following, followed.reason
kept += [jnp.zeros(5) for number in range(1_500)]
census = Census(followed.listings())
assert census.advance(10**10)
assert census.count == len(jax.live_arrays()), census.count
"""


def test_following_begins_where_the_job_waits_for_the_compiler() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_COMPILE], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
