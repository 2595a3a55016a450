import contextlib
import http.client
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.metrics import Family
from jaxobs_plugins.prometheus.access import Credentials, CredentialsError, Token
from jaxobs_plugins.prometheus.exporter import PrometheusExporter
from jaxobs_plugins.prometheus.render import TEXT, render
from tests.prometheus.clients import read_credentials
from tests.waiting import wait_for

SECRET = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(SECRET + "\n")  # as `openssl rand -hex 16 >token` leaves it
    return path


def admits(credentials: Credentials, secret: str) -> bool:
    assert credentials.token is not None
    return credentials.token.admits(f"Bearer {secret}")


@pytest.mark.parametrize("path", ["/metrics", "/", "/-/healthy", "/profile", "/nowhere"])
@pytest.mark.parametrize("authorization", ["", "Bearer", f"Bearer {SECRET[:-1]}", f"Basic {SECRET}", SECRET])
def test_without_the_token_every_path_answers_the_same(
    serve: Callable, families: tuple[Family, ...], path: str, authorization: str
) -> None:
    server = serve(families, token=Token(SECRET.encode()))
    status, headers, body = server.get(path, **({"Authorization": authorization} if authorization else {}))
    assert (status, headers["www-authenticate"]) == (401, 'Bearer realm="jaxobs"')
    headers.pop("date")
    again, others, text = server.get("/elsewhere")
    others.pop("date")
    assert (status, headers, body) == (again, others, text)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_with_the_token_metrics_are_served(
    serve: Callable, families: tuple[Family, ...], resource: dict[str, str], scheme: str
) -> None:
    server = serve(families, token=Token(SECRET.encode()), **resource)
    status, _, body = server.get(Authorization=f"{scheme} {SECRET}")
    assert (status, body) == (200, render(families, resource, TEXT))
    assert server.get("/nowhere", Authorization=f"{scheme} {SECRET}")[0] == 404


def test_two_tokens_in_one_request_are_none(serve: Callable) -> None:
    server = serve(token=Token(SECRET.encode()))
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    client.putrequest("GET", "/metrics")
    for secret in ("wrong", SECRET):
        client.putheader("Authorization", f"Bearer {secret}")
    client.endheaders()
    with client.getresponse() as response:
        assert response.status == 401
    client.close()


@given(st.text(st.characters(max_codepoint=255), max_size=100))
def test_nothing_but_the_token_is_admitted(given: str) -> None:
    assert Token(SECRET.encode()).admits(f"Bearer {given}") is (given.strip() == SECRET)


def test_a_token_cannot_be_read_back() -> None:
    token = Token(SECRET.encode())
    assert SECRET not in repr(vars(token))
    assert SECRET.encode() not in vars(token).values()


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"a\nb", b"\xff\xfe", b"a" * 5000, b"=a"])
def test_a_file_that_holds_no_token_is_refused(token_file: Path, content: bytes) -> None:
    token_file.write_bytes(content)
    with pytest.raises(CredentialsError, match=r"metrics_token_file: .*/token does not hold one token"):
        read_credentials({"metrics_token_file": str(token_file)})


def test_what_cannot_be_used_is_named_and_nothing_is_served(
    make_agent: Callable, certificates: Any, tmp_path: Path
) -> None:
    nowhere, leaf = str(tmp_path / "nowhere"), str(certificates.leaf)
    for settings, message in (
        ({"metrics_token_file": nowhere}, "metrics_token_file: .*nowhere cannot be read: No such file"),
        ({"metrics_tls_certificate": nowhere}, "metrics_tls_certificate: .*nowhere cannot be read: No such"),
        (
            {"metrics_tls_certificate": leaf, "metrics_tls_key": nowhere},
            "metrics_tls_key: .*nowhere cannot be read",
        ),
        ({"metrics_tls_certificate": leaf}, "with the key in the same file cannot be used"),
        (
            {"metrics_tls_certificate": leaf, "metrics_tls_key": str(certificates.other_key)},
            "KEY_VALUES_MISMATCH",
        ),
        ({"metrics_tls_certificate": leaf, "metrics_tls_key": str(certificates.locked_key)}, "no passphrase"),
        ({"metrics_tls_key": str(certificates.key)}, "metrics_tls_key needs the setting metrics_tls_cert"),
    ):
        agent = make_agent(**settings)
        exporter = PrometheusExporter()
        with pytest.raises(CredentialsError, match=message) as raised:
            exporter.start(agent)
        assert "\n" not in str(raised.value)
        assert agent.addresses == []
        exporter.stop(1)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("setting", ["metrics_token_file", "metrics_tls_certificate", "metrics_tls_key"])
@pytest.mark.parametrize("kind", ["fifo", "directory", "device", "link to a fifo"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(
    certificates: Any, tmp_path: Path, setting: str, kind: str
) -> None:
    path = tmp_path / "strange"
    if kind == "directory":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/zero")
    else:
        os.mkfifo(path)
    if kind == "link to a fifo":
        path = tmp_path / "link"
        path.symlink_to("strange")
    settings = {setting: str(path)}
    if setting == "metrics_tls_key":
        settings["metrics_tls_certificate"] = str(certificates.leaf)
    with pytest.raises(CredentialsError, match=f"{setting}: {path} cannot be read: not a regular file"):
        read_credentials(settings)


def test_a_file_too_large_for_a_certificate_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CredentialsError, match="large is larger than 1048576 bytes"):
        read_credentials({"metrics_tls_certificate": str(tmp_path / "large")})


def test_no_file_stays_open(token_file: Path, certificates: Any) -> None:
    def opened() -> list[Path]:
        return sorted(Path("/proc/self/fd").iterdir())

    before = opened()
    settings = {"metrics_token_file": token_file, "metrics_tls_certificate": certificates.leaf}
    for key in (certificates.key, certificates.other_key, token_file.parent, token_file.parent / "nowhere"):
        with contextlib.suppress(CredentialsError):
            read_credentials({**settings, "metrics_tls_key": key})
    assert opened() == before


def test_files_that_were_replaced_are_read_again(token_file: Path, certificates: Any, tmp_path: Path) -> None:
    certificate = tmp_path / "both.pem"
    certificate.write_bytes(certificates.leaf.read_bytes() + certificates.key.read_bytes())
    held = read_credentials({"metrics_token_file": token_file, "metrics_tls_certificate": certificate})
    before = held.tls
    assert admits(held, SECRET)
    held.read()
    assert held.tls is before
    fresh = tmp_path / "fresh"
    fresh.write_text("another")
    fresh.replace(token_file)  # as Kubernetes does it
    held.read()
    assert admits(held, "another")
    assert not admits(held, SECRET)
    certificate.write_bytes(certificates.other.read_bytes() + certificates.other_key.read_bytes())
    held.read()
    assert held.tls is not before


def test_what_cannot_be_used_leaves_the_old_in_use(
    token_file: Path, certificates: Any, tmp_path: Path
) -> None:
    certificate = tmp_path / "both.pem"
    certificate.write_bytes(certificates.leaf.read_bytes() + certificates.key.read_bytes())
    held = read_credentials({"metrics_token_file": token_file, "metrics_tls_certificate": certificate})
    before = held.tls
    token_file.write_text("another")
    certificate.write_bytes(certificates.leaf.read_bytes())  # the key is on its way
    with pytest.raises(CredentialsError, match=r"^metrics_tls_certificate: "):
        held.read()
    assert admits(held, "another")
    assert held.tls is before
    certificate.write_bytes(certificates.other.read_bytes() + certificates.other_key.read_bytes())
    held.read()
    assert held.tls is not before
    token_file.unlink()
    with pytest.raises(CredentialsError, match=r"^metrics_token_file: .* No such file"):
        held.read()
    assert admits(held, "another")


def test_a_job_that_replaces_its_token_is_served_on(
    make_agent: Callable, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.prometheus.test_exporter import batch

    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    agent = make_agent(metrics_token_file=str(token_file))
    exporter = PrometheusExporter()
    exporter.start(agent)
    port = int(agent.addresses[0].rsplit(":", 1)[1].split("/")[0])

    def status(secret: str) -> int:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        client.request("GET", "/metrics", headers={"Authorization": f"Bearer {secret}"})
        with client.getresponse() as response:
            client.close()
            return response.status

    try:
        assert (status(SECRET), status("another")) == (200, 401)
        token_file.write_text("another")
        os.utime(token_file, ns=(1, 1))
        exporter.export(batch())
        wait_for(lambda: status("another") == 200, "the new token")
        assert status(SECRET) == 401
        token_file.write_text("")
        exporter.export(batch())
        [line] = wait_for(lambda: agent.lines, "a line")
        assert "does not hold one token" in line
        assert line.endswith("; what was read before stays in use, and it is tried again")
        assert (status(""), status("another")) == (401, 200)
    finally:
        exporter.stop(5)
