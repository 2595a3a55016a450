"""One session at a time: the user's goes first, and waits for ours no longer than it must."""

import threading
import time

from jaxobs_plugins.probes.profiler.turns import Turns


def test_ours_does_not_begin_while_the_user_has_a_session():
    turns = Turns()
    turns.user_comes(1.0)
    assert not turns.begin_ours()
    turns.user_goes()
    assert turns.begin_ours()


def test_the_user_ends_ours_and_waits_until_it_is_over():
    turns = Turns()
    assert turns.begin_ours()
    order = []

    def ours():
        order.append(("recorded whole", turns.record(30.0)))
        time.sleep(0.05)
        order.append("ours is over")
        turns.end_ours()

    thread = threading.Thread(target=ours)
    thread.start()
    turns.user_comes(10.0)
    order.append("theirs begins")
    thread.join()
    assert order == [("recorded whole", False), "ours is over", "theirs begins"]


def test_the_user_waits_no_longer_than_the_patience():
    turns = Turns()
    assert turns.begin_ours()
    began = time.monotonic()
    turns.user_comes(0.05)
    assert time.monotonic() - began < 5


def test_the_end_of_all_ends_ours():
    turns = Turns()
    assert turns.begin_ours()
    threading.Timer(0.05, turns.stop).start()
    assert not turns.record(30.0)
    turns.end_ours()
    assert not turns.begin_ours()
