"""One session at a time: the user's goes first, and waits for ours no longer than it must."""

import threading
import time

from jaxobs_plugins.probes.profiler.recording import SessionLock


def test_ours_does_not_begin_while_the_user_has_a_session():
    session_lock = SessionLock()
    session_lock.user_comes(1, 1.0)
    assert not session_lock.begin_ours()
    session_lock.user_goes(1)
    assert session_lock.begin_ours()


def test_the_user_ends_ours_and_waits_until_it_is_over():
    session_lock = SessionLock()
    assert session_lock.begin_ours()
    order: list[object] = []

    def ours():
        order.append(("recorded whole", session_lock.record(30.0)))
        time.sleep(0.05)
        order.append("ours is over")
        session_lock.end_ours()

    thread = threading.Thread(target=ours)
    thread.start()
    session_lock.user_comes(1, 10.0)
    order.append("theirs begins")
    thread.join()
    assert order == [("recorded whole", False), "ours is over", "theirs begins"]


def test_the_user_waits_no_longer_than_the_patience():
    session_lock = SessionLock()
    assert session_lock.begin_ours()
    began = time.monotonic()
    session_lock.user_comes(1, 0.05)
    assert time.monotonic() - began < 5


def test_the_end_of_all_ends_ours():
    session_lock = SessionLock()
    assert session_lock.begin_ours()
    threading.Timer(0.05, session_lock.stop).start()
    assert not session_lock.record(30.0)
    session_lock.end_ours()
    assert not session_lock.begin_ours()
