import gc
import gzip
import http.client
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxobs.model.addresses import Address
from jaxobs.model.metrics import Family, Metric
from jaxobs_plugins.prometheus.address import listen
from jaxobs_plugins.prometheus.render import OPENMETRICS, TEXT, render
from jaxobs_plugins.prometheus.server import HttpServer, Request, Response
from tests.prometheus.clients import GET, is_closed


def test_metrics_are_served_in_the_format_asked_for(
    serve: Callable, families: tuple[Family, ...], resource: dict[str, str]
) -> None:
    server = serve(families, **resource)
    status, headers, body = server.get()
    assert (status, headers["content-type"], body) == (200, TEXT, render(families, resource, TEXT))
    status, headers, body = server.get(Accept="application/openmetrics-text;version=1.0.0")
    assert (status, headers["content-type"], body) == (
        200,
        OPENMETRICS,
        render(families, resource, OPENMETRICS),
    )
    assert headers["vary"] == "Accept, Accept-Encoding"


def test_gzip_on_request(serve: Callable, families: tuple[Family, ...]) -> None:
    server = serve(families)
    _, headers, body = server.get(Accept_Encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == server.get()[2]
    assert "content-encoding" not in server.get()[1]


def test_a_page_is_rendered_once_for_each_format(serve: Callable, families: tuple[Family, ...]) -> None:
    server = serve(families)
    for accept in ("", "application/openmetrics-text"):
        first = server.pages.metrics(OPENMETRICS if accept else TEXT)
        assert server.get(Accept=accept)[2] == first
        assert server.pages.metrics(OPENMETRICS if accept else TEXT) is first


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/", 200, b'href="metrics"'),
        ("GET", "/snapshot", 200, b'"version":1'),
        ("POST", "/", 405, b"GET"),
        ("GET", "/-/healthy", 200, b"healthy"),
        ("GET", "/metrics?x=1", 200, b""),
        ("GET", "/metric", 404, b"/metrics"),
        ("POST", "/metrics", 405, b"GET"),
        ("DELETE", "/nothing", 404, b"/metrics"),
    ],
)
def test_paths(serve: Callable, method: str, path: str, status: int, text: bytes) -> None:
    answered, _, body = serve().get(path, method)
    assert answered == status
    assert text in body


def test_head_says_the_length_and_sends_no_body(serve: Callable, families: tuple[Family, ...]) -> None:
    server = serve(families)
    status, headers, body = server.get(method="HEAD")
    assert (status, int(headers["content-length"]), body) == (200, len(server.get()[2]), b"")


def test_one_connection_serves_many_requests(serve: Callable, families: tuple[Family, ...]) -> None:
    server = serve(families)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    bodies = set()
    for _ in range(20):
        connection.request("GET", "/metrics")
        sockets = connection.sock
        bodies.add(connection.getresponse().read())
        assert connection.sock is sockets
    connection.close()
    assert len(bodies) == 1


def test_requests_sent_at_once_are_answered_in_order(serve: Callable) -> None:
    with serve().connect() as client:
        client.sendall(
            b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n"
            b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        answer = client.makefile("rb").read()
    assert answer.index(b"200 OK") < answer.index(b"404 Not Found")


def test_stop_closes_the_port_and_every_connection_at_once(serve: Callable) -> None:
    server = serve()
    client = server.connect()
    client.sendall(GET)
    assert client.recv(10) == b"HTTP/1.1 2"
    started = time.monotonic()
    server.server.stop(60)
    assert time.monotonic() - started < 30
    assert is_closed(client, 30)
    with pytest.raises(ConnectionRefusedError):
        server.connect()
    client.close()
    server.server.stop(5)


def test_stop_takes_no_time(serve: Callable) -> None:
    def stopping() -> float:
        server = serve()
        assert server.get()[0] == 200
        started = time.monotonic()
        server.server.stop(60)
        return time.monotonic() - started

    # The job waits for it at its end. Of several, because other processes may have the processors.
    assert min(stopping() for _ in range(5)) < 0.1


def test_the_port_closes_even_while_a_page_is_rendered() -> None:
    listener, address = listen(Address("localhost", 0), may_move=True)
    entered, leave = threading.Event(), threading.Event()

    def slow(_: Request) -> Response:
        entered.set()
        leave.wait(10)
        raise RuntimeError("never seen")

    server = HttpServer(listener, slow, lambda _: None)
    server.start()
    client = socket.create_connection(("127.0.0.1", address.port))
    client.sendall(GET)
    assert entered.wait(5)
    server.stop(0.1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", address.port))
    leave.set()
    server.stop(5)
    client.close()


def test_stop_without_start_closes_the_port() -> None:
    listener, address = listen(Address("localhost", 0), may_move=True)
    HttpServer(listener, lambda _: pytest.fail("not started"), lambda _: None).stop(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", address.port))


def test_a_page_that_cannot_be_rendered_is_500_and_one_line_in_the_log(serve: Callable) -> None:
    broken = Family(Metric("example_value", "gauge", "A value."), {(): "text"})  # type: ignore[dict-item]  # on purpose
    server = serve((broken,))
    assert server.get()[0] == 500
    assert server.get("/-/healthy")[0] == 200
    assert len(server.lines) == 1


def test_a_thousand_scrapes_and_fifty_starts_leave_nothing_behind(
    serve: Callable, families: tuple[Family, ...]
) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    gc.collect()  # what tests before this one left open would be closed at any moment
    before, threads = descriptors(), threading.active_count()
    for _ in range(50):
        server = serve(families)
        for _ in range(20):
            assert server.get()[0] == 200
        server.server.stop(5)
    gc.collect()
    assert descriptors() <= before
    assert threading.active_count() == threads
