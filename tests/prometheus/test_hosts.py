"""Under which names the metrics are served, and that a web page's is none of them."""

import contextlib
import http.client
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.config import SettingsError, load_settings
from jaxobs_plugins.prometheus.access import AllowedHosts, Token, local_names
from jaxobs_plugins.prometheus.exporter import PrometheusExporter

ALLOWED = (
    "gpu-17", "gpu-17.cluster.example.com", "metrics.example.net", " .team.example.org", "",
)  # fmt: skip
LOOPBACK = AllowedHosts(ALLOWED, from_network=False)
NETWORK = AllowedHosts((*ALLOWED, ".cluster.example.com"), from_network=True)

FOREIGN = [
    "evil.example",
    "evil.example:9464",
    "localhost.evil.example",
    "gpu-17.evil.example",
    "127.0.0.1.evil.example",
    "evilcluster.example.com",
    "team.example.org",
    "evil.lan",
    "evil.svc.example",
    "user@localhost",
    "localhost:80:80",
    "local host",
    "[evil.example]",
    "trainer-0.jobs",
]


@pytest.mark.parametrize("hosts", [LOOPBACK, NETWORK], ids=["loopback", "network"])
@pytest.mark.parametrize(
    "authority",
    [
        "", "localhost", "localhost:9464", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1", "127.0.0.1:9464",
        "10.0.0.5:9464", "[::1]", "[::1]:9464", "[fe80::1]", "gpu-17:9464", "GPU-17.cluster.example.com.",
        "metrics.example.net:443", "a.team.example.org",
    ],
)  # fmt: skip
def test_addresses_our_own_names_and_those_allowed_are_ours(hosts: AllowedHosts, authority: str) -> None:
    assert hosts.admit(authority)


@pytest.mark.parametrize("hosts", [LOOPBACK, NETWORK], ids=["loopback", "network"])
@pytest.mark.parametrize("authority", FOREIGN)
def test_names_that_a_stranger_can_have_are_not(hosts: AllowedHosts, authority: str) -> None:
    assert not hosts.admit(authority)


@pytest.mark.parametrize(
    "authority",
    [
        "trainer:9464", "trainer-0.jobs.svc:9464", "trainer-0.jobs.svc.cluster.local", "gpu-18.cluster.example.com",
        "ip-10-0-0-5.ec2.internal", "box.home.arpa",
    ],
)  # fmt: skip
def test_names_within_a_network_are_ours_where_we_are_reached_from_it(authority: str) -> None:
    """A page's name for a loopback address may come from a hostile network; who is in ours reaches us anyway."""
    assert NETWORK.admit(authority)
    assert not LOOPBACK.admit(authority)


@given(st.text(st.characters(max_codepoint=255), max_size=30), st.from_regex(r"(:\d{0,5})?", fullmatch=True))
def test_a_name_under_a_strangers_domain_is_never_ours(label: str, port: str) -> None:
    assert not NETWORK.admit(f"{label}.evil.example{port}")


@given(st.ip_addresses(), st.integers(0, 65_535))
def test_an_address_is_always_ours(address: object, port: int) -> None:
    assert LOOPBACK.admit(f"[{address}]:{port}" if ":" in str(address) else f"{address}:{port}")


def test_all_names_can_be_allowed() -> None:
    assert all(AllowedHosts(("*",), from_network=False).admit(name) for name in ("a.b", "evil.example"))
    assert not AllowedHosts(("*",), from_network=False).admit("user@evil.example")


def test_the_names_of_this_host_are_found_without_a_name_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: object) -> None:
        pytest.fail("a name server was asked")

    for name in ("getaddrinfo", "gethostbyname", "gethostbyaddr", "getfqdn"):
        monkeypatch.setattr(socket, name, ask)
    monkeypatch.setattr(socket, "gethostname", lambda: "Trainer-0")
    hosts, resolver = tmp_path / "hosts", tmp_path / "resolv.conf"
    hosts.write_text(
        "127.0.0.1 localhost\n0.0.0.0 advertisements.example\n"
        "10.0.0.5 trainer-0.jobs.default.svc.cluster.local trainer-0  # made by Kubernetes\n10.0.0.6\n"
    )
    resolver.write_text(
        "nameserver 10.0.0.1\nsearch default.svc.cluster.local cluster.local. .\noptions ndots:5\n"
    )
    names = {
        "trainer-0",
        "trainer-0.default.svc.cluster.local",
        "trainer-0.cluster.local",
        "trainer-0.jobs.default.svc.cluster.local",
    }
    assert local_names(from_network=False, hosts_file=hosts, resolver_file=resolver) == names
    from_network = local_names(from_network=True, hosts_file=hosts, resolver_file=resolver)
    assert from_network - names == {".default.svc.cluster.local", ".cluster.local"}
    nowhere = tmp_path / "none"
    assert local_names(from_network=True, hosts_file=nowhere, resolver_file=nowhere) == {"trainer-0"}


def ask(port: int, host: str, path: str = "/metrics", **headers: str) -> tuple[int, bytes]:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    client.request("GET", path, headers={"Host": host, **headers})
    with contextlib.closing(client), client.getresponse() as response:
        return response.status, response.read()


@pytest.mark.parametrize("path", ["/metrics", "/", "/-/healthy", "/nowhere"])
def test_a_foreign_name_is_misdirected_and_told_what_to_do(serve: Callable, path: str) -> None:
    status, body = ask(serve().port, "evil.example:9464", path)
    assert status == 421
    assert body.count(b"\n") == 1
    assert b"'evil.example:9464'" in body
    assert b"JAXOBS_METRICS_HOSTS" in body


def test_with_a_token_the_name_does_not_matter(serve: Callable) -> None:
    server = serve(token=Token(b"a-secret"))
    assert ask(server.port, "evil.example")[0] == 401
    assert ask(server.port, "evil.example", Authorization="Bearer a-secret")[0] == 200


def test_what_asks_without_a_name_is_served_as_http_1_0_allows(serve: Callable) -> None:
    with serve().connect() as client:
        client.sendall(b"GET /-/healthy HTTP/1.0\r\n\r\n")
        assert client.makefile("rb").read().startswith(b"HTTP/1.1 200 OK\r\n")


def test_what_a_proxy_is_asked_for_is_not_there(serve: Callable) -> None:
    with serve().connect() as client:
        client.sendall(
            b"GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        assert client.makefile("rb").read().startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    ("listens_at", "served", "refused"),
    [
        (None, ["localhost", "node1", "allowed.example"], ["trainer.jobs.svc", "evil.example"]),
        (
            "0.0.0.0",
            ["localhost", "node1", "allowed.example", "trainer.jobs.svc", "trainer"],
            ["evil.example"],
        ),
    ],
)
def test_a_job_serves_under_its_own_names_and_those_of_the_settings(
    make_agent: Callable,
    monkeypatch: pytest.MonkeyPatch,
    listens_at: str | None,
    served: list[str],
    refused: list[str],
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    if listens_at is None:
        monkeypatch.delenv("OTEL_EXPORTER_PROMETHEUS_HOST", raising=False)
    else:
        monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_HOST", listens_at)
    agent = make_agent(metrics_hosts="other.example, allowed.example")
    exporter = PrometheusExporter()
    exporter.start(agent)
    try:
        port = int(agent.addresses[0].rsplit(":", 1)[1].split("/")[0])
        statuses = {name: ask(port, name)[0] for name in (*served, *refused, socket.gethostname())}
        assert len([line for line in agent.lines if "JAXOBS_METRICS_HOSTS" in line]) == 1
        assert statuses == dict.fromkeys((*served, socket.gethostname()), 200) | dict.fromkeys(refused, 421)
    finally:
        exporter.stop(5)


@pytest.mark.parametrize("names", ["*", "a.example", ".a.example, b_c-d.example.,", ""])
def test_names_are_a_setting(names: str) -> None:
    assert load_settings(metrics_hosts=names).metrics_hosts == names


@pytest.mark.parametrize(
    "names", ["http://a.example", "a.example:9464", "a.example, b c", "*.a.example", "[::1]"]
)
def test_what_is_no_name_is_refused_where_it_is_set(names: str) -> None:
    with pytest.raises(SettingsError, match=r"argument metrics_hosts=.* is no host name: give names alone"):
        load_settings(metrics_hosts=names)
