"""Clients that are idle, slow, too many, or never leave: none keeps others waiting."""

import contextlib
import errno
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from jaxobs.model.metrics import Family
from jaxobs_plugins.prometheus.render import TEXT
from jaxobs_plugins.prometheus.server import Limits
from tests.prometheus.clients import GET, is_closed, large_family


@pytest.mark.parametrize("sent", [b"", b"GET /metr"], ids=["silent", "half a request"])
def test_a_client_without_a_request_is_closed_in_time(serve: Callable, sent: bytes) -> None:
    with serve(limits=Limits(first_request_seconds=0.2)).connect() as client:
        client.sendall(sent)
        assert is_closed(client, 30)


def test_a_client_that_sends_a_byte_at_a_time_is_closed_in_time(serve: Callable) -> None:
    with serve(limits=Limits(first_request_seconds=0.3)).connect() as client:
        started = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in GET * 10:
                client.sendall(bytes([byte]))
                if is_closed(client, 0.02):
                    break
        assert 0.2 < time.monotonic() - started < 30


def test_a_client_that_begins_with_tls_where_none_is_spoken_is_answered_at_once(serve: Callable) -> None:
    server = serve(limits=Limits(first_request_seconds=60))
    with server.connect() as client:
        client.sendall(b"\x16\x03\x01\x02\x00")
        assert client.recv(12) == b"HTTP/1.1 400"
    context = ssl.create_default_context()
    context.check_hostname = False
    with server.connect() as client, pytest.raises(ssl.SSLError):
        context.wrap_socket(client)


def test_a_connection_idle_between_requests_is_closed_in_time(serve: Callable) -> None:
    with serve(limits=Limits(next_request_seconds=0.2)).connect() as client:
        client.sendall(GET)
        assert client.recv(10) == b"HTTP/1.1 2"
        assert is_closed(client, 30)


def test_a_client_that_does_not_read_is_closed_in_time(serve: Callable) -> None:
    server = serve((large_family(),), limits=Limits(response_seconds=0.3))
    body = server.pages.metrics(TEXT)
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
    limits = Limits(connections=64, first_request_seconds=60)
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
        assert max(seconds for _, seconds in results) < 30
    finally:
        stop.set()
        reader.join()
        for client in [*idle, slow]:
            client.close()


def test_over_the_cap_a_client_is_closed_and_later_others_are_served(serve: Callable) -> None:
    server = serve((large_family(),), limits=Limits(connections=3, response_seconds=1))
    server.pages.metrics(TEXT)
    busy = [server.connect() for _ in range(3)]
    for client in busy:
        client.sendall(GET)
        assert client.recv(10) == b"HTTP/1.1 2"
    with server.connect() as one_too_many:
        assert one_too_many.recv(12) == b""
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


def test_who_sends_on_and_on_after_the_last_answer_keeps_nobody_waiting(serve: Callable) -> None:
    """Between any two pieces of what is thrown away the others have their turn."""
    server, stop = serve(limits=Limits(goodbye_seconds=60)), threading.Event()
    client = server.connect()
    client.sendall(b"no request\r\n\r\n")
    assert client.recv(12) == b"HTTP/1.1 400"

    def send_on() -> None:
        with contextlib.suppress(OSError):
            while not stop.is_set():
                client.sendall(bytes(1 << 16))

    sender = threading.Thread(target=send_on)
    sender.start()
    try:
        for _ in range(20):
            assert server.get("/-/healthy")[0] == 200
    finally:
        stop.set()
        sender.join(30)
        client.close()


def test_an_error_of_the_network_while_it_accepts_does_not_close_the_port(serve: Callable) -> None:
    """accept(2): Linux passes on an error that waits on the new connection, such as EPROTO."""
    server = serve()
    assert server.get("/-/healthy")[0] == 200
    loop = server.server._runner.get_loop()
    accept, errors = (
        loop.sock_accept,
        [OSError(errno.EPROTO, "Protocol error"), OSError(errno.EPERM, "not permitted")],
    )

    async def failing(listener: socket.socket) -> object:
        accepted = await accept(listener)
        if errors:
            accepted[0].close()
            raise errors.pop()
        return accepted

    loop.sock_accept = failing
    for _ in range(3):  # the first is accepted by the call that waits already
        with contextlib.suppress(OSError, http.client.HTTPException):
            server.get("/-/healthy")
    assert server.get("/-/healthy")[0] == 200
    assert errors == []
