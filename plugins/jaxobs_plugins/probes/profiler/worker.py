"""Runs long tasks on one thread, which starts with the first task and is joined at the end."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from jaxobs.plugin.threads import Thread

Task = Callable[[], None]


class Worker:
    """Runs tasks in turn. `failed` is called with what a task raised; the tasks after it still run."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        # `with` takes the lock itself and not the condition, whose `__enter__` is Python code: a signal handler that
        # raises within it would leave the lock taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._tasks: deque[Task] = deque()
        self._thread: Thread | None = None
        self._stopped = False

    def give(self, task: Task) -> None:
        """Queue a task. Raises RuntimeError where no thread can be started."""
        with self._lock:
            if self._stopped:
                return
            if self._thread is None:
                self._thread = Thread("profiler", self._run)
            self._tasks.append(task)
            self._changed.notify_all()

    @property
    def idle(self) -> bool:
        return not self._tasks

    def stop(self, patience: float) -> None:
        """Drop the tasks that wait, and wait `patience` seconds for the one under way."""
        with self._lock:
            self._stopped = True
            self._tasks.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(patience)

    def _run(self) -> None:
        while True:
            with self._lock:
                self._changed.wait_for(lambda: self._stopped or self._tasks)
                if self._stopped:
                    return
                task = self._tasks[0]
            try:
                task()
            except Exception as error:  # noqa: BLE001  # an error of the profiler must not end on the job's console
                self._failed(error)
            del task
            with self._lock:
                if self._tasks:
                    self._tasks.popleft()
