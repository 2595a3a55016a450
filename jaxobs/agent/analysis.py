"""Decoding modules on a worker thread, so that neither the fold nor a scrape waits for a large one."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from jaxobs.cost_model import module_cost
from jaxobs.model.cost import ModuleCost
from jaxobs.plugin.custom_calls import load_rules

Done = tuple[int, ModuleCost | None, str]


class Analysis:
    """`submit` modules; `finished` gives what is done. Each module with the same bytes is decoded once."""

    def __init__(self, log: Callable[[str], None], wake: Callable[[], None]) -> None:
        self._log = log
        self._wake = wake
        self._waiting: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._finished: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="jaxobs-analysis", daemon=True)
        self._pending = 0

    def start(self) -> None:
        self._thread.start()

    def submit(self, number: int, proto: bytes) -> None:
        self._pending += 1
        self._waiting.put((number, proto))

    def finished(self) -> list[Done]:
        done: list[Done] = []
        while True:
            try:
                done.append(self._finished.get_nowait())
            except queue.Empty:
                self._pending -= len(done)
                return done

    def settle(self, timeout: float) -> list[Done]:
        """Wait until nothing is waiting, for the last snapshot of a short job."""
        deadline = time.monotonic() + timeout
        done = self.finished()
        while self._pending > 0 and time.monotonic() < deadline:
            time.sleep(0.005)
            done += self.finished()
        return done

    def stop(self) -> None:
        self._waiting.put(None)

    def _run(self) -> None:
        rules = load_rules(self._log)
        while (item := self._waiting.get()) is not None:
            number, proto = item
            del item
            try:
                done: Done = (number, module_cost(proto, custom_call_rules=rules), "")
            except ValueError as error:
                done = (number, None, f"its module could not be read: {error}"[:500])
            except Exception as error:  # noqa: BLE001  # one module must not end the thread
                done = (number, None, f"its cost could not be derived: {type(error).__name__}: {error}"[:500])
            del proto
            self._finished.put(done)
            self._wake()
