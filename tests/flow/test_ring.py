"""The ring: bounded, in order, and exact about what it lost."""

import gc
import signal
import threading
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.flow.ring import Ring
from jaxobs.model.events import LoopEnded, steps_of_rows


def event(number: int) -> LoopEnded:
    return LoopEnded("train", number, 0)


def times(events: list[Any]) -> list[int]:
    return [found.time for found in events]


@given(
    capacity=st.integers(1, 20),
    actions=st.lists(st.one_of(st.integers(1, 30), st.none(), st.integers(-30, -1)), max_size=30),
)
@settings(max_examples=300)
def test_every_event_is_taken_in_order_or_counted_as_dropped(
    capacity: int, actions: list[int | None]
) -> None:
    """A positive action emits so many events, a negative one drains at most so many, None asks for the drops."""
    ring, model, emitted, dropped = Ring(capacity), [], 0, 0
    for action in actions:
        if action is None:
            assert ring.dropped() == dropped
        elif action > 0:
            for _ in range(action):
                ring.emit(event(emitted))
                model.append(emitted)
                emitted += 1
            dropped += max(0, len(model) - capacity)
            model = model[-capacity:]
        else:
            taken, model = model[:-action], model[-action:]
            assert times(ring.drain(-action)) == taken
    assert len(ring) == len(model)
    assert times(ring.drain()) == model
    assert ring.dropped() == dropped


def test_very_many_events_are_counted_exactly_and_take_no_more_memory_than_the_capacity() -> None:
    ring = Ring(1000)
    tracemalloc.start()
    for number in range(20_000):
        ring.emit(event(number))
    before, _ = tracemalloc.get_traced_memory()
    for number in range(20_000, 60_000):
        ring.emit(event(number))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A ring of 1000 such events holds about 150 kB; the other 40 000 would be 6 MB.
    assert after - before < 100_000
    assert ring.dropped() == 59_000
    assert times(ring.drain()) == list(range(59_000, 60_000))


def test_drops_are_exact_when_many_threads_emit_while_one_drains() -> None:
    ring, count, producers = Ring(100), 20_000, 8
    taken: list[int] = []
    running = True

    def produce() -> None:
        for number in range(count):
            ring.emit(event(number))

    def consume() -> None:
        while running:
            taken.extend(times(ring.drain(50)))
            ring.dropped()

    consumer = threading.Thread(target=consume)
    threads = [threading.Thread(target=produce) for _ in range(producers)]
    for thread in (consumer, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    running = False
    consumer.join()
    taken.extend(times(ring.drain()))
    assert ring.emitted() == count * producers
    assert ring.dropped() + len(taken) == count * producers


# The alarm is the test's own: a late one, which another thread was handed, would be taken for pytest-timeout's.
@pytest.mark.timeout(method="thread")
def test_emit_from_a_finalizer_and_from_a_signal_handler_while_draining_does_not_deadlock() -> None:
    ring = Ring(64)

    class Dying:
        def __del__(self) -> None:
            ring.emit(event(-1))

    before = signal.signal(signal.SIGALRM, lambda *_: ring.emit(event(-2)))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        taken = []
        for number in range(3000):
            garbage = Dying()
            garbage.itself = garbage  # type: ignore[attr-defined]  # so that only the collector frees it
            ring.emit(event(number))
            if number % 7 == 0:
                taken += ring.drain()
            if number % 500 == 0:
                gc.collect()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    gc.collect()
    taken += ring.drain()
    seen = times(taken)
    assert seen.count(-2) > 0
    assert ring.dropped() + len(taken) == ring.emitted()
    own = [number for number in seen if number >= 0]
    assert own == sorted(own)


def test_a_closed_ring_takes_nothing_and_keeps_nothing() -> None:
    ring = Ring(64)
    ring.emit(event(1))
    ring.close()
    ring.emit(event(2))
    ring.extend((event(3),))
    assert len(ring) == 0
    assert ring.drain() == []


def step(number: int) -> tuple[Any, ...]:
    return ("train", number, number, number + 1, 0, 0, 0, None, None, 1, 0)


@given(
    capacity=st.integers(1, 600),
    what=st.lists(st.tuples(st.booleans(), st.integers(1, 400)), max_size=8),
    limit=st.one_of(st.none(), st.integers(1, 700)),
)
@settings(max_examples=100, deadline=None)
def test_steps_come_out_whole_and_in_their_place_among_other_events(
    capacity: int, what: list[tuple[bool, int]], limit: int | None
) -> None:
    ring = Ring(capacity)
    sent: list[tuple[bool, int]] = []
    for is_step, count in what:
        for _ in range(count):
            number = len(sent)
            if is_step:
                ring.extend(step(number))
                ring.advance()
            else:
                ring.emit(event(number))
            sent.append((is_step, number))
    kept = sent[-capacity:]
    assert ring.dropped() == len(sent) - len(kept)
    taken: list[tuple[bool, int]] = []
    for item in ring.drain(limit):
        if isinstance(item, list):
            taken += [(True, found.step) for found in steps_of_rows(item)]
        else:
            taken.append((False, item.time))
    assert taken == kept[:limit]
    assert len(ring) == len(kept) - len(taken)


def test_steps_that_wait_bring_the_garbage_collector_to_no_pass() -> None:
    ring = Ring(65_536)
    for number in range(10):  # what is made once
        ring.extend(step(number))
    gc.collect()
    before = [generation["collections"] for generation in gc.get_stats()]
    for number in range(20_000):
        ring.extend(step(number))
        ring.advance()
    assert [generation["collections"] for generation in gc.get_stats()] == before
