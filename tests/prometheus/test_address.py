import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.addresses import Address, AddressError, wanted_address
from jaxobs_plugins.prometheus.address import listen

HOST, PORT = "OTEL_EXPORTER_PROMETHEUS_HOST", "OTEL_EXPORTER_PROMETHEUS_PORT"
EXPORTER = "OTEL_METRICS_EXPORTER"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody else listens, the next one being free when this was made."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize(
    ("environment", "rank", "wanted"),
    [
        ({}, 0, Address("localhost", 9464)),
        ({}, 3, Address("localhost", 9467)),
        ({HOST: "", PORT: " "}, 0, Address("localhost", 9464)),
        ({HOST: "0.0.0.0", PORT: "8000"}, 1, Address("0.0.0.0", 8001)),
        ({HOST: "[::1]", PORT: "0"}, 5, Address("::1", 0)),
    ],
)
def test_the_address_follows_the_variables_and_the_rank(
    environment: dict[str, str], rank: int, wanted: Address
) -> None:
    assert wanted_address({"rank_on_host": rank}, environment) == wanted


@pytest.mark.parametrize(
    ("settings", "environment", "wanted"),
    [
        ({"metrics_port": 8000}, {PORT: "9000"}, Address("localhost", 8000)),
        ({"metrics_port": 8000, "rank_on_host": 2}, {EXPORTER: "prometheus"}, Address("localhost", 8002)),
        ({"metrics_port": 0, "rank_on_host": 2}, {PORT: "9000"}, Address("localhost", 0)),
        ({"metrics_host": "[::1]"}, {HOST: "0.0.0.0", PORT: "9000"}, Address("::1", 9000)),
        ({}, {EXPORTER: "prometheus"}, Address("localhost", 9465)),
        ({"rank_on_host": 1}, {EXPORTER: "otlp, Prometheus", PORT: "9000"}, Address("localhost", 9002)),
        ({"job_serves_prometheus": True}, {PORT: "9000"}, Address("localhost", 9001)),
        ({"job_serves_prometheus": True}, {PORT: "0"}, Address("localhost", 0)),
        ({}, {EXPORTER: "prometheus_remote,none"}, Address("localhost", 9464)),
    ],
)
def test_settings_choose_before_the_variables_whose_port_may_be_the_jobs_own(
    settings: dict[str, Any], environment: dict[str, str], wanted: Address
) -> None:
    assert wanted_address(settings, environment) == wanted


@given(st.text(max_size=8).filter(lambda text: text.strip() and not text.strip().isdigit()))
def test_what_is_no_port_is_named_in_one_line(text: str) -> None:
    with pytest.raises(AddressError, match=PORT) as raised:
        wanted_address({}, {PORT: text})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["-1", "65536", "9" * 5000, "٣", "9464.0"])
def test_a_number_that_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(AddressError, match="from 0 to 65535"):
        wanted_address({}, {PORT: text})


def test_a_taken_port_moves_to_the_next_free_one(taken: int) -> None:
    listener, address = listen(Address("localhost", taken), may_move=True)
    with listener:
        assert taken < address.port < taken + 100
        assert listener.getsockname() == ("127.0.0.1", address.port)


def test_ranks_that_start_at_once_get_ports_of_their_own() -> None:
    with contextlib.ExitStack() as stack:
        first, address = listen(Address("localhost", 0), may_move=True)
        stack.enter_context(first)
        ports = [address.port]
        for _ in range(8):
            listener, moved = listen(Address("localhost", address.port), may_move=True)
            stack.enter_context(listener)
            ports.append(moved.port)
    assert len(set(ports)) == 9


def test_in_kubernetes_a_taken_port_is_an_error_that_says_what_to_do(taken: int) -> None:
    with pytest.raises(AddressError, match=rf"localhost:{taken}: the port is taken.*JAXOBS_METRICS_PORT"):
        listen(Address("localhost", taken), may_move=False)


@pytest.mark.parametrize("port", [65_535 + 1, 65_535 + 50])
def test_a_rank_beyond_the_last_port_gets_any_free_one(port: int) -> None:
    listener, address = listen(Address("localhost", port), may_move=True)
    with listener:
        assert 0 < address.port <= 65_535
    with pytest.raises(AddressError, match="no such port"):
        listen(Address("localhost", port), may_move=False)


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("203.0.113.7", "Cannot assign"),
        ("no.such.host.invalid", ""),
        ("host..local", "no host has such a name"),
        ("x" * 64, "no host has such a name"),
    ],
)
def test_a_host_that_is_not_this_one_is_named(host: str, reason: str) -> None:
    with pytest.raises(AddressError, match=rf"{host}:9464: {reason}.*JAXOBS_METRICS_HOST"):
        listen(Address(host, 9464), may_move=True)


@pytest.mark.parametrize("host", ["::1", "::"])
def test_internet_protocol_version_6(host: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback address")
    listener, address = listen(Address(host, 0), may_move=True)
    with listener:
        socket.create_connection(("::1", address.port), timeout=5).close()
        if host == "::":
            socket.create_connection(("127.0.0.1", address.port), timeout=5).close()


@pytest.mark.parametrize(
    ("address", "netloc"),
    [
        (Address("localhost", 1), "localhost:1"),
        (Address("::1", 1), "[::1]:1"),
        (Address("0.0.0.0", 1), "here:1"),
        (Address("::", 1), "here:1"),
    ],
)
def test_a_url_names_a_destination(address: Address, netloc: str) -> None:
    assert address.netloc(wildcard_host="here") == netloc
