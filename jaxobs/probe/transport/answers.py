"""Asking the agent, and waiting for what it answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Answers:
    """Any thread may ask; the sender's thread brings what arrives."""

    def __init__(self) -> None:
        self._answers: dict[int, Any] = {}
        self._awaited: set[int] = set()
        # The lock itself is what is entered: a condition is entered in Python, where a signal handler that raises on the
        # thread that asks would leave it locked for the sender.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._asked = 0
        self._over = False

    def ask(self, request: Callable[[int, float], None], timeout: float) -> Any:
        """The agent's answer to what `request` sends under a number, to come within `timeout` seconds.

        None where none came in time, or none will come any more.
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
        """What came too late for whoever asked is dropped."""
        with self._lock:
            if number in self._awaited:
                self._answers[number] = answer
                self._changed.notify_all()

    def none_will_come(self) -> None:
        """The sender has given up."""
        with self._lock:
            self._over = True
            self._changed.notify_all()
