"""The metrics server of a real job: a port that is taken, names that are not its own, and what is no HTTP."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

SERVES = """
import logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
import jaxobs
obs = jaxobs.instrument(interval=0.1)
while obs.address is None: time.sleep(0.1)
print(obs.address, flush=True)
sys.stdin.readline()
print(obs.snapshot(60)["process"]["address"])
"""


@pytest.fixture
def served(start: Callable[..., Any]) -> Iterator[tuple[str, int]]:
    job = start(SERVES, observed=False, reads=True)
    where = urlsplit(job.process.stdout.readline().strip())
    yield str(where.hostname), where.port or 0
    job.say("leave")
    assert job.end().status == 0


@pytest.mark.fault(18)
def test_where_the_port_is_taken_the_next_one_is_used_and_said_everywhere(
    start: Callable[..., Any], page: Callable[..., str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        job = start(SERVES, observed=False, reads=True, OTEL_EXPORTER_PROMETHEUS_PORT=str(port))
        address = job.process.stdout.readline().strip()
        assert urlsplit(address).port not in {port, None}
        page(address, f'address="{address}"')  # a snapshot may be older than the address, by a second
        job.say("leave")
        outcome = job.end()
    assert (outcome.status, outcome.stdout) == (0, f"{address}\n")
    assert f"jaxobs: port {port} is taken: metrics are at {address}" in outcome.stderr.splitlines()
    assert f"jaxobs: live page {address.removesuffix('metrics')}, metrics {address}" in outcome.stderr


SERVES_ITSELF = """
import socket
port = int(os.environ["OTEL_EXPORTER_PROMETHEUS_PORT"])
exec(os.environ.get("BEFORE", ""))
import jaxobs
obs = jaxobs.instrument()
while (address := obs.address) is None: time.sleep(0.1)
if "BEFORE" not in os.environ or "import opentelemetry" in os.environ["BEFORE"]:
    own = socket.create_server(("", port))
print(address)
"""


@pytest.mark.fault(63)
@pytest.mark.parametrize(
    "job",
    [
        {"OTEL_METRICS_EXPORTER": "otlp,prometheus"},
        {"JAXOBS_METRICS_PORT": "0"},
        {"BEFORE": "import opentelemetry.exporter.prometheus"},
        {"BEFORE": "import prometheus_client; prometheus_client.start_http_server(port)"},
    ],
    ids=["the variable names it", "ours is chosen", "its exporter is loaded", "its server is there"],
)
def test_a_job_that_serves_prometheus_itself_gets_the_port_of_opentelemetrys_variables(
    run: Callable[..., Any], path_with: Callable[..., str], tmp_path: Path, job: dict[str, str]
) -> None:
    exporter = tmp_path / "opentelemetry" / "exporter" / "prometheus"
    exporter.mkdir(parents=True)
    (exporter / "__init__.py").touch()  # what its name stands for is installed nowhere here
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    outcome = run(
        SERVES_ITSELF,
        observed=False,
        OTEL_EXPORTER_PROMETHEUS_PORT=str(port),
        PYTHONPATH=path_with(tmp_path),
        **job,
    )
    assert outcome.status == 0, outcome.stderr
    assert urlsplit(outcome.stdout.strip()).port not in {None, port}


@pytest.mark.fault(49)
def test_a_page_without_a_token_is_for_names_of_this_host_alone(served: tuple[str, int]) -> None:
    statuses = {}
    for name in ("localhost", "127.0.0.1", socket.gethostname(), "evil.example", "localhost.evil.example"):
        client = http.client.HTTPConnection(*served, timeout=10)
        client.request("GET", "/metrics", headers={"Host": f"{name}:{served[1]}"})
        answer = client.getresponse()
        statuses[name] = answer.status, b"# TYPE" in answer.read()
        client.close()
    assert {status for status, _ in list(statuses.values())[:3]} == {200}
    assert list(statuses.values())[3:] == [(421, False)] * 2


@pytest.mark.fault(54)
@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"GET /metrics HTTP/1.1\nHost: localhost\n\n", b"HTTP/1.1 400 "),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\n\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*;q=0\r\n\r\n", b"HTTP/1.1 200 "),
        (b"\x16\x03\x01\x00\xa5\x01\r\n\r\n", b"HTTP/1.1 400 "),
    ],
    ids=["bare line feeds", "one bare line feed", "q=0", "a TLS handshake"],
)
def test_what_is_no_http_is_refused_in_one_answer(
    served: tuple[str, int], sent: bytes, answered: bytes
) -> None:
    with socket.create_connection(served, 10) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        assert client.makefile("rb").read().startswith(answered)
