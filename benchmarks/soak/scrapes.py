"""Clients of /metrics: scrapers as they should be, and sockets that ask for nothing, for half, or for rubbish."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import random
import socket
import threading
from urllib.parse import urlsplit

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from benchmarks.soak.chance import Bag

CLIENTS = ("text", "text", "openmetrics", "openmetrics", "idle", "half", "rubbish", "gone")
HALVES = {"idle": b"", "half": b"GET /metrics HTTP/1.1\r\nHo", "rubbish": b"\x16\x03\x01\x00\xff" * 20}
OPENMETRICS = "application/openmetrics-text; version=1.0.0"

PATIENCE = 30.0
"""Seconds for a scrape, while the agent may be suspended and the machine busy."""


class Scrapes:
    """One client after the other and some side by side, until `end`."""

    def __init__(self, address: str, chance: random.Random, suspended: threading.Event) -> None:
        self.answered = 0
        self.failures: list[str] = []
        self._where = urlsplit(address)
        self._chance = chance
        self._bag = Bag(chance, CLIENTS)
        self._suspended = suspended
        self._held: list[socket.socket] = []

    def turn(self) -> float:
        """One client; and how many seconds there are until the next."""
        kind = self._bag.draw()
        if kind in {"text", "openmetrics"}:
            self._scrape(kind)
        else:
            self._disturb(kind)
        return self._chance.uniform(0.2, 4.0)

    def end(self) -> None:
        for client in self._held:
            client.close()

    def _scrape(self, kind: str) -> None:
        connection = http.client.HTTPConnection(self._where.hostname or "", self._where.port, PATIENCE)
        headers = {"Accept": OPENMETRICS, "Accept-Encoding": "gzip"} if kind == "openmetrics" else {}
        try:
            connection.request("GET", self._where.path, headers=headers)
            response = connection.getresponse()
            body = response.read()
            if response.getheader("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            families = openmetrics_families if kind == "openmetrics" else text_families
            if response.status != 200 or not list(families(body.decode())):
                self.failures.append(f"{kind}: status {response.status}, {len(body)} bytes")
            self.answered += 1
        except (OSError, ValueError, http.client.HTTPException) as error:
            if not self._suspended.is_set():
                self.failures.append(f"{kind}: {type(error).__name__}: {error}")
        finally:
            connection.close()

    def _disturb(self, kind: str) -> None:
        """Held open, as by a client that hangs; at most a handful at a time."""
        while len(self._held) > 6:
            self._held.pop(0).close()
        with contextlib.suppress(OSError):
            client = socket.create_connection((self._where.hostname, self._where.port), 5.0)
            if kind == "gone":
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                client.close()
                return
            client.sendall(HALVES[kind])
            self._held.append(client)
