"""What a client of the metrics server sends and sees, a page that fills its buffers, and credentials as a server has."""

import select
import socket
import time
from typing import Any

from jaxobs.model.metrics import Family, Metric
from jaxobs_plugins.prometheus.access import Credentials

GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


def large_family(series: int = 60_000) -> Family:
    """A page larger than what the kernel buffers for a client that does not read."""
    metric = Metric("example_value", "gauge", "A value.", ("name",))
    return Family(metric, {("x" * 200 + str(index),): float(index) for index in range(series)})


def is_closed(client: socket.socket, seconds: float) -> bool:
    """Whether the server closes or resets it within `seconds`; what it still sends is thrown away."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([client], [], [], left)[0]:
            try:
                if not client.recv(1 << 20):
                    return True
            except ConnectionError:
                return True
    return False


def read_credentials(settings: dict[str, Any]) -> Credentials:
    credentials = Credentials(settings)
    credentials.read()
    return credentials
