"""What goes wrong around the job: an endpoint that fails, clients that hang, an agent that is suspended."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable

import psutil

from benchmarks.soak.chance import Bag
from benchmarks.soak.endpoint import MODES, Endpoint
from benchmarks.soak.scrapes import Scrapes

RECOVERY_SECONDS = 5.0
"""After a suspension: a scrape that began within may have run out of time."""


class Disturbances:
    """Each on a thread of its own, with a chance of its own, until `calm`."""

    def __init__(self, seed: str, endpoint: Endpoint, address: str, agent: psutil.Process) -> None:
        self.suspensions = 0
        self._suspended = threading.Event()
        self.scrapes = Scrapes(address, random.Random(f"{seed} scrapes"), self._suspended)
        self._endpoint = endpoint
        self._agent = agent
        self._chance = random.Random(f"{seed} disturbances")
        self._modes = Bag(random.Random(f"{seed} modes"), MODES)
        self._calm = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(turn,), daemon=True)
            for turn in (self._turn_endpoint, self._suspend_agent, self.scrapes.turn)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def calm(self) -> None:
        """End them all, and leave everything well."""
        self._calm.set()
        for thread in self._threads:
            thread.join()
        self.scrapes.end()
        self._endpoint.turn("accepts")

    def _repeat(self, turn: Callable[[], float]) -> None:
        while not self._calm.wait(turn()):
            pass

    def _turn_endpoint(self) -> float:
        self._endpoint.turn(self._modes.draw())
        return self._chance.uniform(4.0, 20.0)

    def _suspend_agent(self) -> float:
        """Now and then, sometimes for so long that the pipe and the ring are full."""
        self.suspensions += 1
        self._suspended.set()
        with contextlib.suppress(psutil.Error):
            self._agent.suspend()
            self._calm.wait(self._chance.uniform(1.0, 25.0))
            self._agent.resume()
        self._calm.wait(RECOVERY_SECONDS)
        self._suspended.clear()
        return self._chance.uniform(20.0, 100.0)
