import gzip
import http.client
import json
import os
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxobs.model.metrics import Family
from jaxobs_plugins.prometheus.exporter import PrometheusExporter
from jaxobs_plugins.prometheus.render import TEXT, render
from jaxobs_plugins.prometheus.server import Limits
from tests.documentation.fences import fences
from tests.prometheus.clients import GET, is_closed, large_family, read_credentials
from tests.prometheus.test_exporter import batch, steps
from tests.prometheus_server import PrometheusServer
from tests.waiting import wait_for

Serve = Callable[..., Any]


@pytest.fixture
def trusted(certificates: Any) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificates.authority)


@pytest.fixture
def serve_tls(serve: Serve, certificates: Any, trusted: ssl.SSLContext) -> Serve:
    """As `serve`, with the leaf certificate; `get` trusts its authority."""

    def start(*arguments: Any, **named: Any) -> Any:
        settings = {"metrics_tls_certificate": certificates.leaf, "metrics_tls_key": certificates.key}
        server = serve(*arguments, tls=read_credentials(settings).tls, **named)
        server.trusted = trusted
        return server

    return start


def test_the_same_page_through_tls(
    serve_tls: Serve, families: tuple[Family, ...], resource: dict[str, str]
) -> None:
    server = serve_tls(families, **resource)
    status, headers, body = server.get()
    assert (status, headers["content-type"], body) == (200, TEXT, render(families, resource, TEXT))
    assert gzip.decompress(server.get(Accept_Encoding="gzip")[2]) == body
    assert server.get(method="HEAD")[2] == b""


def test_what_the_docs_make_with_openssl_is_taken_by_clients_as_strict_as_those_of_python_3_13(
    serve: Serve, tmp_path: Path
) -> None:
    [recipe] = [fence.text for fence in fences("sh") if fence.text.startswith("openssl req")]
    subprocess.run(["bash", "-euc", recipe], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    made = {"metrics_tls_certificate": tmp_path / "certificate.pem", "metrics_tls_key": tmp_path / "key.pem"}
    server = serve(tls=read_credentials(made).tls)
    server.trusted = ssl.create_default_context(cafile=tmp_path / "certificate.pem")
    server.trusted.verify_flags |= ssl.VERIFY_X509_STRICT
    assert server.get("/-/healthy", host="localhost")[0] == 200


def test_a_large_page_arrives_whole_and_a_connection_serves_many(serve_tls: Serve) -> None:
    server = serve_tls((large_family(),))
    expected = server.pages.metrics(TEXT)
    assert len(expected) > 10_000_000
    client = http.client.HTTPSConnection("localhost", server.port, timeout=30, context=server.trusted)
    for _ in range(3):
        client.request("GET", "/metrics")
        with client.getresponse() as response:
            assert response.read() == expected
    assert isinstance(client.sock, ssl.SSLSocket)
    assert client.sock.version() == "TLSv1.3"
    client.close()


def test_a_connection_ends_with_a_goodbye(serve_tls: Serve) -> None:
    """Else a client could not tell the end of what is said from a connection that somebody has cut."""
    server = serve_tls()
    with server.trusted.wrap_socket(server.connect(), server_hostname="localhost") as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        said = b""
        while piece := client.recv(4096):  # raises SSLEOFError where there is no goodbye
            said += piece
    assert said.startswith(b"HTTP/1.1 200 ")
    assert server.lines == []


def test_who_does_not_speak_tls_learns_nothing(serve_tls: Serve, families: tuple[Family, ...]) -> None:
    server = serve_tls(families)
    with server.connect() as client:
        client.sendall(GET)
        said = b""
        while piece := client.recv(4096):
            said += piece
    assert b"jaxobs" not in said
    assert len(said) < 100
    assert server.get()[0] == 200
    assert server.lines == []


def test_a_client_that_does_not_know_the_authority_refuses(serve_tls: Serve) -> None:
    server = serve_tls()
    server.trusted = ssl.create_default_context()
    with pytest.raises(ssl.SSLCertVerificationError):
        server.get()
    assert server.lines == []


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01\x00", b"\x16\x03\x01"])
def test_handshakes_that_stall_keep_nobody_waiting(serve_tls: Serve, sent: bytes) -> None:
    limits = Limits(connections=40, handshake_seconds=4.0)
    server = serve_tls(limits=limits)
    stalled = [server.connect() for _ in range(39)]
    for client in stalled:
        client.sendall(sent)
    for _ in range(20):
        began = time.monotonic()
        assert server.get()[0] == 200
        assert time.monotonic() - began < limits.handshake_seconds
    assert all(is_closed(client, 30.0) for client in stalled)
    for client in stalled:
        client.close()
    assert threading.active_count() < 20


def test_a_handshake_that_stalls_makes_room_for_a_new_client(serve_tls: Serve) -> None:
    server = serve_tls(limits=Limits(connections=3, handshake_seconds=60))
    stalled = [server.connect() for _ in range(3)]
    time.sleep(0.1)
    assert server.get()[0] == 200
    assert is_closed(stalled[0], 2.0)
    for client in stalled:
        client.close()


def test_rubbish_after_the_handshake_ends_that_connection_alone(serve_tls: Serve) -> None:
    server = serve_tls()
    plain = server.connect()
    client = server.trusted.wrap_socket(plain, server_hostname="localhost", do_handshake_on_connect=True)
    os.write(client.fileno(), b"\x17\x03\x03\x00\x20" + b"x" * 32)  # a record that does not decrypt
    assert client.recv(100) == b""
    client.close()
    assert server.get()[0] == 200
    assert server.lines == []


def test_a_new_certificate_is_shown_to_those_who_connect_from_then_on(
    make_agent: Callable, certificates: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    file = tmp_path / "both.pem"
    file.write_bytes(certificates.leaf.read_bytes() + certificates.key.read_bytes())
    exporter = PrometheusExporter()
    agent = make_agent(metrics_tls_certificate=str(file))
    exporter.start(agent)
    [address] = agent.addresses
    host, port = urllib.parse.urlsplit(address).hostname, urllib.parse.urlsplit(address).port
    assert address.startswith("https://localhost:")
    assert host is not None
    assert port is not None
    try:
        assert ssl.get_server_certificate((host, port)) == certificates.leaf.read_text()
        file.write_bytes(certificates.other.read_bytes())  # half of a replacement
        exporter.export(batch())
        wait_for(lambda: agent.lines, "a line about it")
        assert ssl.get_server_certificate((host, port)) == certificates.leaf.read_text()
        file.write_bytes(certificates.other.read_bytes() + certificates.other_key.read_bytes())
        exporter.export(batch())
        shown = certificates.other.read_text()
        wait_for(lambda: ssl.get_server_certificate((host, port)) == shown, "the new certificate")
    finally:
        exporter.stop(5)
    assert len(agent.lines) == 1


def test_a_real_prometheus_brings_the_token_through_tls(
    make_agent: Callable,
    certificates: Any,
    tmp_path: Path,
    prometheus_server_binary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The target file says that it is TLS; the token's file is the same on both sides. Without either it is down."""
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    token = tmp_path / "token"
    token.write_text("a-secret\n")
    agent = make_agent(
        file_sd_directory=str(tmp_path / "targets"),
        metrics_token_file=str(token),
        metrics_tls_certificate=str(certificates.leaf),
        metrics_tls_key=str(certificates.key),
    )
    exporter = PrometheusExporter()
    exporter.start(agent)
    exporter.export(batch(steps(12.0)))
    found = {"file_sd_configs": [{"files": [str(tmp_path / "targets" / "*.json")]}]}
    knows = {"tls_config": {"ca_file": str(certificates.authority)}}
    brings = {"authorization": {"credentials_file": str(token)}}
    configuration = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {"job_name": "both", **found, **knows, **brings},
            {"job_name": "stranger", **found, **knows},
            {"job_name": "sceptic", **found, **brings},
        ],
    }
    server = PrometheusServer(prometheus_server_binary, tmp_path, json.dumps(configuration))

    def targets() -> dict[str, tuple[str, str]]:
        """Health and last error by job, once all were answered in time, which a busy machine may miss."""
        active = server.get("targets")["activeTargets"]
        told = {each["labels"]["job"]: (each["health"], each["lastError"]) for each in active}
        answered = [health != "unknown" and "exceeded" not in error for health, error in told.values()]
        return told if len(told) == 3 and all(answered) else {}

    try:
        told = wait_for(targets, "a scrape of each target")
        assert told["both"] == ("up", "")
        assert told["stranger"][0] == "down"
        assert "401" in told["stranger"][1]
        assert told["sceptic"][0] == "down"
        assert "certificate" in told["sceptic"][1]
    finally:
        server.close()
        exporter.stop(5)
    assert agent.lines == []
