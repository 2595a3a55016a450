"""Matches requests to the agent with its answers, and waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Answers:
    """The requests that wait for an answer. Any thread may ask; the sender's thread calls `arrived`."""

    def __init__(self) -> None:
        self._answers: dict[int, Any] = {}
        self._awaited: set[int] = set()
        # `with` takes the lock itself and not the condition, whose `__enter__` is Python code: a signal handler that
        # raises within it, on the thread that asks, would leave the lock taken for the sender.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._asked = 0
        self._over = False

    def ask(self, request: Callable[[int, float], None], timeout: float) -> Any:
        """Call `request` with a new number and the timeout, and return the agent's answer to it.

        None where no answer came within `timeout` seconds, or none will come any more.
        """
        with self._lock:
            self._asked += 1
            number = self._asked
            self._awaited.add(number)
        request(number, timeout)
        with self._lock:
            self._changed.wait_for(lambda: number in self._answers or self._over, timeout)
            self._awaited.discard(number)
            return self._answers.pop(number, None)

    def arrived(self, number: int, answer: Any) -> None:
        """Take an answer; one that came too late for its request is dropped."""
        with self._lock:
            if number in self._awaited:
                self._answers[number] = answer
                self._changed.notify_all()

    def none_will_come(self) -> None:
        """End every wait, because the sender has given up."""
        with self._lock:
            self._over = True
            self._changed.notify_all()
