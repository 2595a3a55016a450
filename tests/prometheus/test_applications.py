import asyncio
import gzip
import io
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from jaxobs.model.metrics import Family
from jaxobs_plugins.prometheus import asgi_application, wsgi_application
from jaxobs_plugins.prometheus.credentials.credentials import Token
from jaxobs_plugins.prometheus.pages.render import OPENMETRICS
from tests.prometheus.clients import read_credentials
from tests.prometheus.dead_mount import DeadMount

Answer = tuple[int, dict[str, str], bytes]


def ask_wsgi(address: Any, method: str = "GET", **headers: str) -> Answer:
    """Through the standard library's checker of the WSGI rules."""
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "QUERY_STRING": "", "wsgi.input": io.BytesIO()}
    setup_testing_defaults(environ)
    environ.update({f"HTTP_{name.upper()}": value for name, value in headers.items()})
    answered: dict[str, Any] = {}

    def start_response(
        status: str, headers: list[tuple[str, str]], _: Any = None
    ) -> Callable[[bytes], object]:
        answered.update(status=int(status[:3]), headers={name.lower(): value for name, value in headers})
        return lambda _: None

    parts: Any = validator(wsgi_application(address))(environ, start_response)
    body = b"".join(parts)
    parts.close()
    return answered["status"], answered["headers"], body


def ask_asgi(address: Any, method: str = "GET", **headers: str) -> Answer:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": "/metrics", "headers": encoded}
    application: Any = asgi_application(address)
    asyncio.run(application(scope, receive, send))
    start, body = sent
    assert (start["type"], body["type"]) == ("http.response.start", "http.response.body")
    return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, body["body"]


both = pytest.mark.parametrize("ask", [ask_wsgi, ask_asgi])


@both
def test_the_agents_bytes_are_passed_on(
    ask: Callable[..., Answer], serve: Callable, families: tuple[Family, ...]
) -> None:
    server = serve(families)
    address = f"http://localhost:{server.port}/metrics"
    for source in (address, lambda: address, SimpleNamespace(address=address)):
        status, headers, body = ask(source, accept="application/openmetrics-text")
        assert (status, headers["content-type"]) == (200, OPENMETRICS)
        assert int(headers["content-length"]) == len(body)
        assert body == server.get(Accept="application/openmetrics-text")[2]


@both
def test_compression_is_the_agents(
    ask: Callable[..., Answer], serve: Callable, families: tuple[Family, ...]
) -> None:
    server = serve(families)
    _, headers, body = ask(f"http://localhost:{server.port}/metrics", accept_encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == server.get()[2]


@both
def test_the_agent_decides_who_may_read_and_proves_who_it_is(
    ask: Callable[..., Answer],
    serve: Callable,
    families: tuple[Family, ...],
    certificates: Any,
    tmp_path: Path,
) -> None:
    settings = {"metrics_tls_certificate": certificates.leaf, "metrics_tls_key": certificates.key}
    server = serve(families, token=Token(b"a-secret"), tls=read_credentials(settings).tls)
    address = f"https://localhost:{server.port}/metrics"
    server.trusted = ssl.create_default_context(cafile=certificates.authority)
    expected = server.get(Authorization="Bearer a-secret")[2]

    def observer(certificate: Path) -> Any:
        return SimpleNamespace(address=address, settings=SimpleNamespace(metrics_tls_certificate=certificate))

    chain = tmp_path / "chain.pem"  # as it is served: the key, the agent's own, and who vouches for it
    chain.write_bytes(
        b"".join(file.read_bytes() for file in (certificates.key, certificates.leaf, certificates.authority))
    )
    for ours in (observer(certificates.leaf), observer(chain)):
        status, headers, _ = ask(ours)
        assert (status, headers["www-authenticate"]) == (401, 'Bearer realm="jaxobs"')
        status, _, body = ask(ours, authorization="Bearer a-secret")
        assert (status, body) == (200, expected)
    for stranger in (observer(certificates.other), address):
        status, _, body = ask(stranger, authorization="Bearer a-secret")
        assert (status, b"a-secret" in body) == (503, False)
        assert b"certificate verify failed" in body


@both
@pytest.mark.parametrize("hangs", ["the file does not answer", "a fifo"])
def test_a_certificate_that_hangs_is_503_in_time(
    ask: Callable[..., Answer], dead_mount: DeadMount, hangs: str
) -> None:
    """The application runs in the user's web server, on its thread."""
    path = dead_mount.directory / "certificate.pem"
    os.mkfifo(path)
    if hangs != "a fifo":
        dead_mount.die()
    source = SimpleNamespace(
        address="https://localhost:1/metrics", settings=SimpleNamespace(metrics_tls_certificate=path)
    )
    started = time.monotonic()
    status, _, body = ask(source)
    assert time.monotonic() - started < 30
    assert (status, body.count(b"\n")) == (503, 1)
    assert (b"not a regular file" if hangs == "a fifo" else b"no answer for 2 s") in body


@both
def test_head_has_no_body_and_other_methods_are_refused(ask: Callable[..., Answer], serve: Callable) -> None:
    address = f"http://localhost:{serve().port}/metrics"
    assert ask(address, "HEAD")[::2] == (200, b"")
    assert ask(address, "POST")[0] == 405


NOBODY = "http://localhost:1/metrics"
"""Port 1 is reserved for a service that no machine has any more."""


@both
@pytest.mark.parametrize(
    "address",
    [NOBODY, None, lambda: None, "localhost:9464", "unix:///tmp/x"],
    ids=["nobody", "none", "no answer", "no URL", "no HTTP"],
)
def test_without_an_agent_the_answer_is_503_and_one_line(ask: Callable[..., Answer], address: Any) -> None:
    status, headers, body = ask(address)
    assert (status, body.count(b"\n"), body[-1:]) == (503, 1, b"\n")
    assert headers["content-type"].startswith("text/plain")


@both
def test_what_does_not_speak_http_is_503(ask: Callable[..., Answer]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def babble() -> None:
            client, _ = other.accept()
            client.recv(1000)
            client.sendall(b"\x00\x01 what?\r\n\r\n")
            client.close()

        thread = threading.Thread(target=babble)
        thread.start()
        status, _, body = ask(f"http://127.0.0.1:{other.getsockname()[1]}/metrics")
        thread.join()
    assert (status, body.count(b"\n")) == (503, 1)


@both
def test_an_agent_that_hangs_is_503_in_time(ask: Callable[..., Answer]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        status, _, _ = ask(f"http://127.0.0.1:{silent.getsockname()[1]}/metrics")
    assert status == 503
    assert time.monotonic() - started < 30


@both
def test_a_proxy_of_the_environment_is_not_asked(
    ask: Callable[..., Answer], serve: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", NOBODY)
    assert ask(f"http://127.0.0.1:{serve().port}/metrics")[0] == 200


def test_an_event_loop_goes_on_while_the_agent_is_asked() -> None:
    async def run() -> int:
        turns = 0
        with socket.create_server(("127.0.0.1", 0)) as silent:
            application = asgi_application(f"http://127.0.0.1:{silent.getsockname()[1]}/metrics")
            scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
            asked = asyncio.ensure_future(application(scope, asyncio.Future, discard))
            while not asked.done():
                await asyncio.sleep(0.05)
                turns += 1
        return turns

    async def discard(message: Any) -> None:
        assert message

    assert asyncio.run(run()) > 10


def test_lifespan_events_are_acknowledged() -> None:
    events = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[str] = []

    async def receive() -> Any:
        return {"type": next(events)}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    application: Any = asgi_application(None)
    asyncio.run(application({"type": "lifespan"}, receive, send))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_importing_the_applications_imports_no_renderer() -> None:
    program = (
        "import sys, jaxobs_plugins.prometheus.applications, jaxobs_plugins.prometheus as package\n"
        "print(sorted({'prometheus_client', 'jax', 'gzip', 'ssl'} & set(sys.modules)))\n"
        "print(package.PrometheusExporter.__name__, 'prometheus_client' in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    ).stdout
    assert printed.splitlines()[1] == "PrometheusExporter True"
    assert "prometheus_client" not in printed.splitlines()[0]
