import asyncio
import contextlib
import gzip
import http.client
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jaxobs.model.metrics import Family, Metric
from jaxobs_plugins.prometheus.address import Address, listen
from jaxobs_plugins.prometheus.connection import Connection, Limits
from jaxobs_plugins.prometheus.messages import Request, Response
from jaxobs_plugins.prometheus.render import OPENMETRICS, TEXT, render
from jaxobs_plugins.prometheus.server import HttpServer
from jaxobs_plugins.prometheus.stream import RECEIVE_BYTES

GET = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"


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
        first = server.page.body(OPENMETRICS if accept else TEXT, compressed=False)
        assert server.get(Accept=accept)[2] == first
        assert server.page.body(OPENMETRICS if accept else TEXT, compressed=False) is first


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/", 200, b"/metrics"),
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
        client.sendall(b"GET /-/healthy HTTP/1.1\r\n\r\nGET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n")
        answer = client.makefile("rb").read()
    assert answer.index(b"200 OK") < answer.index(b"404 Not Found")


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01" * 9 + b"\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000],
    ids=["TLS", "too long"],
)
def test_what_is_no_request_gets_400_and_the_connection_ends(serve: Callable, sent: bytes) -> None:
    with serve().connect() as client:
        client.sendall(sent)
        assert client.makefile("rb").read().startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_a_request_body_is_not_taken_for_the_next_request(serve: Callable) -> None:
    with serve().connect() as client:
        client.sendall(b"POST /metrics HTTP/1.1\r\nContent-Length: 35\r\n\r\n" + GET)
        answer = client.makefile("rb").read()
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("sent", [b"", b"GET /metr"], ids=["silent", "half a request"])
def test_a_client_without_a_request_is_closed_in_time(serve: Callable, sent: bytes) -> None:
    with serve(limits=Limits(first_request_seconds=0.2)).connect() as client:
        client.sendall(sent)
        assert is_closed(client, 2)


def test_a_client_that_sends_a_byte_at_a_time_is_closed_in_time(serve: Callable) -> None:
    with serve(limits=Limits(first_request_seconds=0.3)).connect() as client:
        started = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in GET * 10:
                client.sendall(bytes([byte]))
                if is_closed(client, 0.02):
                    break
        assert 0.2 < time.monotonic() - started < 2


def test_a_connection_idle_between_requests_is_closed_in_time(serve: Callable) -> None:
    with serve(limits=Limits(next_request_seconds=0.2)).connect() as client:
        client.sendall(GET)
        assert client.recv(10) == b"HTTP/1.1 2"
        assert is_closed(client, 2)


def test_a_client_that_does_not_read_is_closed_in_time(serve: Callable) -> None:
    server = serve((large_family(),), limits=Limits(response_seconds=0.3))
    body = server.page.body(TEXT, compressed=False)
    with server.connect() as client:
        client.sendall(GET)
        time.sleep(0.6)
        received = 0
        with contextlib.suppress(ConnectionError):
            while data := client.recv(1 << 20):
                received += len(data)
    assert 0 < received < len(body)


def test_idle_sockets_and_a_slow_reader_do_not_keep_fifty_scrapes_waiting(
    serve: Callable, families: tuple[Family, ...]
) -> None:
    limits = Limits(connections=64, first_request_seconds=2)
    server = serve(families, limits)
    threads = threading.active_count()
    idle = [server.connect() for _ in range(200)]
    slow = server.connect()
    slow.sendall(GET)
    stop = threading.Event()

    def read_slowly() -> None:
        with contextlib.suppress(OSError):
            while not stop.wait(1) and slow.recv(1):
                pass

    def scrape(_: int) -> tuple[int, float]:
        started = time.monotonic()
        return server.get()[0], time.monotonic() - started

    reader = threading.Thread(target=read_slowly)
    reader.start()
    try:
        assert threading.active_count() == threads + 1  # the reader; the server has its one thread
        with ThreadPoolExecutor(50) as scrapers:
            results = list(scrapers.map(scrape, range(50)))
        assert {status for status, _ in results} == {200}
        assert max(seconds for _, seconds in results) < 1
        closed = [is_closed(client, 5) for client in idle]
        assert all(closed)
    finally:
        stop.set()
        reader.join()
        for client in [*idle, slow]:
            client.close()


def test_over_the_cap_a_client_gets_503_and_later_others_are_served(serve: Callable) -> None:
    server = serve((large_family(),), limits=Limits(connections=3, response_seconds=1))
    server.page.body(TEXT, compressed=False)
    busy = [server.connect() for _ in range(3)]
    for client in busy:
        client.sendall(GET)
        assert client.recv(10) == b"HTTP/1.1 2"
    status, headers, body = server.get("/-/healthy")
    assert (status, headers["retry-after"], body.count(b"\n")) == (503, "1", 1)
    time.sleep(1.2)
    assert server.get("/-/healthy")[0] == 200
    for client in busy:
        client.close()


def test_clients_that_have_their_last_answer_and_stay_make_room_for_others(serve: Callable) -> None:
    server = serve(limits=Limits(connections=3, goodbye_seconds=60))
    staying = [server.connect() for _ in range(3)]
    for client in staying:
        client.sendall(b"no request\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 400"
    assert server.get("/-/healthy")[0] == 200
    for client in staying:
        client.close()


def test_who_sends_on_and_on_after_the_last_answer_keeps_nobody_waiting() -> None:
    """Between any two pieces of what is thrown away the others have their turn."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += theirs.send(bytes(1 << 16))
    theirs.close()
    others = 0

    async def goodbye() -> None:
        nonlocal others
        connection = Connection(ours, lambda _: pytest.fail("no request"), lambda _: None, Limits())
        task = asyncio.get_running_loop().create_task(connection.say_goodbye())
        while not task.done():
            others += 1
            await asyncio.sleep(0)
        connection.close()

    asyncio.run(goodbye())
    assert others >= sent // RECEIVE_BYTES > 1


def test_refused_clients_that_do_not_leave_are_capped_too(serve: Callable) -> None:
    server = serve((large_family(),), limits=Limits(connections=2, response_seconds=5, goodbye_seconds=5))
    server.page.body(TEXT, compressed=False)
    busy = [server.connect() for _ in range(2)]
    for client in busy:
        client.sendall(GET)
        client.recv(10)
    refused = [server.connect() for _ in range(2)]
    assert all(client.recv(12) == b"HTTP/1.1 503" for client in refused)
    with server.connect() as dropped:
        assert dropped.recv(12) == b""
    for client in [*busy, *refused]:
        client.close()


def test_stop_closes_the_port_and_every_connection_at_once(serve: Callable) -> None:
    server = serve()
    client = server.connect()
    client.sendall(GET)
    assert client.recv(10) == b"HTTP/1.1 2"
    started = time.monotonic()
    server.server.stop(5)
    assert time.monotonic() - started < 0.5
    assert is_closed(client, 1)
    with pytest.raises(ConnectionRefusedError):
        server.connect()
    client.close()
    server.server.stop(5)


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
    broken = Family(Metric("example_value", "gauge", "A value."), {(): "text"})  # type: ignore[dict-item]
    server = serve((broken,))
    assert server.get()[0] == 500
    assert server.get("/-/healthy")[0] == 200
    assert len(server.lines) == 1


@pytest.mark.filterwarnings(
    "ignore:.*multi-threaded:DeprecationWarning"
)  # Python 3.12 says so of any such fork
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX warns of any fork; this one is the test
def test_a_forked_child_holds_no_socket(serve: Callable, families: tuple[Family, ...]) -> None:
    server = serve(families)
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)

    def status() -> int:
        client.request("GET", "/metrics")
        with client.getresponse() as response:
            response.read()
            return response.status

    assert status() == 200
    ready, hold = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hold[1])
        os.write(ready[1], b".")
        os.read(hold[0], 1)  # until the parent has looked
        os._exit(0)
    try:
        os.read(ready[0], 1)
        assert status() == 200  # what was open when the fork came is served on by the parent
        assert server.get()[0] == 200
        server.server.stop(5)
        assert is_closed(client.sock, 2)  # it would stay open if the child had it too
        with pytest.raises(ConnectionRefusedError):
            server.connect()
    finally:
        client.close()
        for descriptor in (*ready, *hold):
            os.close(descriptor)
        assert os.waitpid(child, 0)[1] == 0


def test_a_thousand_scrapes_and_fifty_starts_leave_nothing_behind(
    serve: Callable, families: tuple[Family, ...]
) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before, threads = descriptors(), threading.active_count()
    for _ in range(50):
        server = serve(families)
        for _ in range(20):
            assert server.get()[0] == 200
        server.server.stop(5)
    assert (descriptors(), threading.active_count()) == (before, threads)
