"""The exporter where files of its settings do not answer: the page goes on, and nothing is served to too many."""

import contextlib
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from jaxobs_plugins.prometheus import PrometheusExporter
from jaxobs_plugins.prometheus.credentials import followed as followed_credentials
from jaxobs_plugins.prometheus.credentials.files import CredentialsError
from tests.prometheus.dead_mount import DeadMount
from tests.prometheus.test_exporter import batch, steps


@pytest.fixture(autouse=True)
def any_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    monkeypatch.delenv("OTEL_EXPORTER_PROMETHEUS_HOST", raising=False)


def get(address: str, token: str, tls: ssl.SSLContext | None = None) -> str:
    asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=5, context=tls) as response:
        return str(response.read(), "utf-8")


def test_where_the_tokens_file_does_not_answer_at_the_start_nothing_is_served_until_it_does(
    make_agent: Callable, dead_mount: DeadMount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_credentials, "FIRST_SECONDS", 0.3)
    token = dead_mount.directory / "token"
    token.write_text("a-secret")
    dead_mount.die()
    agent = make_agent(metrics_token_file=str(token))
    exporter = PrometheusExporter()
    exporter.start(agent)
    for _ in range(2):
        with pytest.raises(
            CredentialsError, match=f"{token}: no answer for .* nothing is served until it can be read"
        ):
            exporter.export(batch(steps(1)))
    assert agent.addresses == []
    dead_mount.revive()
    deadline = time.monotonic() + 20
    while not agent.addresses and time.monotonic() < deadline:
        with contextlib.suppress(CredentialsError):
            exporter.export(batch(steps(2)))
        time.sleep(0.05)
    [address] = agent.addresses
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(address, "wrong")
    refused.value.close()
    assert refused.value.code == 401
    assert 'jaxobs_steps_total{loop="train"} 2.0\n' in get(address, "a-secret")
    exporter.stop(5)


def test_where_nothing_was_ever_served_the_end_comes_at_once(
    make_agent: Callable, dead_mount: DeadMount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_credentials, "FIRST_SECONDS", 0.3)
    dead_mount.die()
    exporter = PrometheusExporter()
    exporter.start(make_agent(metrics_tls_certificate=str(dead_mount.directory / "certificate.pem")))
    began = time.monotonic()
    exporter.job_ended()
    exporter.stop(60)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("hangs", ["the files do not answer", "a fifo"])
def test_the_page_goes_on_where_the_files_hang(
    make_agent: Callable, dead_mount: DeadMount, certificates: Any, hangs: str
) -> None:
    token, certificate = dead_mount.directory / "token", dead_mount.directory / "both.pem"
    token.write_text("a-secret")
    certificate.write_bytes(certificates.leaf.read_bytes() + certificates.key.read_bytes())
    agent = make_agent(
        metrics_token_file=str(token),
        metrics_tls_certificate=str(certificate),
        file_sd_directory=str(dead_mount.directory),
    )
    exporter = PrometheusExporter()
    exporter.start(agent)
    tls = ssl.create_default_context(cafile=certificates.authority)
    if hangs == "a fifo":
        for file in (token, certificate):
            file.unlink()
            os.mkfifo(file)
    else:
        dead_mount.die()
    began = time.monotonic()
    for count in range(50):
        exporter.export(batch(steps(count)))
    assert time.monotonic() - began < 30  # a second for each that hangs, once
    assert 'jaxobs_steps_total{loop="train"} 49.0\n' in get(agent.addresses[0], "a-secret", tls)
    dead_mount.revive()
    exporter.stop(5)
