"""What waits for an agent that takes nothing is bounded in bytes too, and nothing of it is lost to the count."""

from __future__ import annotations

import threading
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jaxobs.flow.ring import Ring
from jaxobs.model.events import BackendFound, ExecutableCreated, Measured, ProfileWindow
from jaxobs.probe.transport.backlog import EXECUTABLES_KEPT, RETAINED_BYTES, Payloads, Retained

MOST = 1000

TOO_MANY = f"with it more than {MOST} bytes of modules and traces would have waited for the agent"


def created(size: int) -> ExecutableCreated:
    return ExecutableCreated(1, "step", 0, bytes(size), "", (), 1)


def window(size: int) -> ProfileWindow:
    return ProfileWindow("scheduled", "read", 0, 1, 1, bytes(size), "", "")


def held(events: list[Any]) -> int:
    return sum(
        len(getattr(event, "proto", None) or getattr(event, "xspace", None) or b"") for event in events
    )


def test_over_the_bound_an_event_goes_without_its_payload_and_says_why() -> None:
    ring = Ring(100)
    payloads = Payloads(ring, lambda: 0, MOST)
    for event in (created(600), window(600), created(300), Measured("x", (), 1.0, 0)):
        payloads.emit(event)
    first, second, third, fourth = ring.drain()
    assert (first, third, fourth) == (created(600), created(300), Measured("x", (), 1.0, 0))
    assert isinstance(second, ProfileWindow)
    assert (second.xspace, second.outcome) == (None, "failed")
    assert second.reason == TOO_MANY
    payloads.emit(created(1000))
    assert held(ring.drain()) == 1000  # what was taken out makes room
    payloads.emit(created(1001))
    (last,) = ring.drain()
    assert isinstance(last, ExecutableCreated)
    assert last.proto is None
    assert last.proto_reason == TOO_MANY


def test_what_is_taken_out_and_not_yet_written_counts() -> None:
    ring = Ring(100)
    taken: list[Any] = []
    payloads = Payloads(ring, lambda: held(taken), MOST)
    payloads.emit(created(900))
    taken += ring.drain()
    for _ in range(3):
        payloads.emit(created(100))
    assert held(ring.drain()) == 100
    taken.clear()
    payloads.emit(created(1000))
    assert held(ring.drain()) == 1000


@given(st.lists(st.one_of(st.integers(0, 1200), st.just(-1)), max_size=200), st.integers(1, 8))
def test_the_bound_holds_and_nothing_is_refused_that_has_room(sizes: list[int], capacity: int) -> None:
    """-1: the sender takes what there is. A ring that loses its oldest makes room as well."""
    ring = Ring(capacity)
    payloads = Payloads(ring, lambda: 0, MOST)
    for size in sizes:
        if size < 0:
            ring.drain()
            continue
        before = held(ring.waiting())
        payloads.emit(created(size))
        last = ring.waiting()[-1]
        assert isinstance(last, ExecutableCreated)
        assert (last.proto is not None) is (before + size <= MOST or size == 0)
        assert held(ring.waiting()) <= MOST


def test_threads_that_compile_at_once_stay_within_the_bound() -> None:
    ring = Ring(10_000)
    payloads = Payloads(ring, lambda: 0, MOST)

    def compile_many() -> None:
        for _ in range(200):
            payloads.emit(created(7))

    threads = [threading.Thread(target=compile_many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ring) == 1600
    assert held(ring.waiting()) == MOST // 7 * 7


def test_the_buffers_of_a_module_count_as_well() -> None:
    ring = Ring(100)
    payloads = Payloads(ring, lambda: 0, MOST)
    payloads.emit(created(600)._replace(buffers=bytes(401)))
    (event,) = ring.drain()
    assert (event.proto, event.buffers) == (None, b"")
    assert payloads.module_bytes == 600


def test_of_executables_that_are_not_kept_any_more_nothing_counts_against_newer_ones() -> None:
    retained = Retained()
    retained.keep([created(RETAINED_BYTES)])
    retained.keep([created(0)] * EXECUTABLES_KEPT)
    retained.keep([created(RETAINED_BYTES)])
    assert retained.executables()[-1].proto == bytes(RETAINED_BYTES)


def test_of_a_job_that_compiles_without_end_a_new_agent_is_told_the_backend_and_the_latest() -> None:
    retained = Retained()
    backend = BackendFound("cpu", (), 0, 1, "0", "0", 0)
    retained.keep([backend])
    for number in range(EXECUTABLES_KEPT + 1):
        assert retained.keep([created(0)._replace(executable=number)]) == 1
    *executables, last = retained.events()
    assert last == backend
    assert [each.executable for each in executables] == list(range(1, EXECUTABLES_KEPT + 1))
