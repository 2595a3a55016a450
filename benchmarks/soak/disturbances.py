"""What goes wrong around the job, by chance: an OTLP endpoint that fails, clients that hang, a suspended agent."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import random
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

import psutil
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from tests.otel.job import Receiver


def drawn(chance: random.Random, words: Sequence[str]) -> Iterator[str]:
    """Words in any order, but none again before each has come.

    So everything has happened once before growth is measured, and what is made once at its first time is no growth.
    """
    while True:
        yield from chance.sample(words, len(words))


STATUS = {"unavailable": 503, "too large": 413}
MODES = ("accepts", "accepts", "unavailable", "too large", "slow", "silent", "closed")

SILENT_SECONDS = 15.0
"""How long a request is kept without an answer: longer than the exporter waits, which is 10 s by default."""


class Endpoint:
    """An OTLP endpoint whose `mode` is one of MODES."""

    def __init__(self) -> None:
        self.mode = "accepts"
        self._receivers = [self._opened(0)]
        self.url = self._receivers[0].endpoint

    @property
    def spans(self) -> set[bytes]:
        """Those for which it answered that it has them."""
        return {span.trace_id + span.span_id for receiver in self._receivers for span in receiver.spans()}

    def turn(self, mode: str) -> None:
        """Answer so from now on."""
        before, self.mode = self.mode, mode
        server = self._receivers[-1].server
        if mode == "closed" != before:
            server.shutdown()
            server.server_close()
        elif before == "closed" != mode:
            self._receivers.append(self._opened(server.server_port))

    def _opened(self, port: int) -> Receiver:
        receiver = Receiver(port=port)
        receiver.answer = self._answer
        return receiver

    def _answer(self, *_: object) -> tuple[int, dict[str, str], bytes]:
        mode = self.mode
        if mode in {"silent", "closed"}:  # a server that goes ends the connections that it has
            time.sleep(SILENT_SECONDS if mode == "silent" else 0.0)
            sys.exit()  # of the request's thread, without an answer
        if mode == "slow":
            time.sleep(random.uniform(0.5, 3.0))
        return STATUS.get(mode, 200), {}, b""


CLIENTS = ("text", "text", "openmetrics", "openmetrics", "idle", "half", "rubbish", "gone")
HALVES = {"idle": b"", "half": b"GET /metrics HTTP/1.1\r\nHo", "rubbish": b"\x16\x03\x01\x00\xff" * 20}
OPENMETRICS = "application/openmetrics-text; version=1.0.0"

PATIENCE = 30.0
"""Seconds for a scrape, while the agent may be suspended and the machine busy."""


RECOVERY_SECONDS = 5.0
"""After a suspension: a scrape that began within may have run out of time."""


class Disturbances:
    """Each on a thread of its own, with a chance of its own, until `calm`."""

    def __init__(self, seed: str, endpoint: Endpoint, address: str, agent: psutil.Process) -> None:
        self.suspensions = self.answered = 0
        self.failures: list[str] = []
        """Of scrapes, of which so many were answered."""
        self._endpoint, self._address, self._agent = endpoint, address, agent
        self._chance = random.Random(f"{seed} disturbances")
        self._modes = drawn(random.Random(f"{seed} modes"), MODES)
        self._clients = drawn(random.Random(f"{seed} clients"), CLIENTS)
        self._held: list[socket.socket] = []
        self._calm, self._suspended = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(turn,), daemon=True)
            for turn in (self._turn_endpoint, self._suspend_agent, self._ask)
        ]
        for thread in self._threads:
            thread.start()

    def calm(self) -> None:
        """End them all, and leave everything well."""
        self._calm.set()
        for thread in self._threads:
            thread.join()
        for client in self._held:
            client.close()
        self._endpoint.turn("accepts")

    def _repeat(self, turn: Callable[[], float]) -> None:
        while not self._calm.wait(turn()):
            pass

    def _turn_endpoint(self) -> float:
        self._endpoint.turn(next(self._modes))
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

    def _ask(self) -> float:
        """One client, after the other and beside some that are held."""
        kind = next(self._clients)
        if kind in {"text", "openmetrics"}:
            self._scrape(kind)
        else:
            self._disturb(kind)
        return self._chance.uniform(0.2, 4.0)

    def _scrape(self, kind: str) -> None:
        headers = {"Accept": OPENMETRICS, "Accept-Encoding": "gzip"} if kind == "openmetrics" else {}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self._address, headers=headers), timeout=PATIENCE
            ) as page:
                body, encoding = page.read(), page.headers["Content-Encoding"]
            families = openmetrics_families if kind == "openmetrics" else text_families
            text = (gzip.decompress(body) if encoding == "gzip" else body).decode()
            if not list(families(text)):
                self.failures.append(f"{kind}: no family in {len(body)} bytes")
            self.answered += 1
        except (OSError, ValueError, http.client.HTTPException) as error:
            if not self._suspended.is_set():
                self.failures.append(f"{kind}: {type(error).__name__}: {error}")

    def _disturb(self, kind: str) -> None:
        """Held open, as by a client that hangs; at most a handful at a time."""
        while len(self._held) > 6:
            self._held.pop(0).close()
        with contextlib.suppress(OSError):
            where = urlsplit(self._address)
            client = socket.create_connection((where.hostname, where.port), 5.0)
            if kind == "gone":
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                client.close()
                return
            client.sendall(HALVES[kind])
            self._held.append(client)
