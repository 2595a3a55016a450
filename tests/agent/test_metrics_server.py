"""The metrics server of a real agent: with a token, through TLS, and what it asks of the job."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agent.beside import AgentProcess

Start = Callable[..., AgentProcess]


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("a-secret")
    return path


def ask(url: str, token: str, method: str = "GET", tls: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(url, method=method, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=10, context=tls) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_with_a_token_and_a_certificate_nothing_is_said_to_others(
    start_agent: Start, token_file: Path, certificates: Any
) -> None:
    agent = start_agent(
        metrics_token_file=token_file,
        metrics_tls_certificate=certificates.leaf,
        metrics_tls_key=certificates.key,
    )
    address = agent.address()
    assert address.startswith("https://localhost:")
    tls = ssl.create_default_context(cafile=certificates.authority)
    assert ask(address, "wrong", tls=tls)[0] == 401
    status, page = ask(address, "a-secret", tls=tls)
    assert status == 200
    assert b"target_info{" in page
    assert b"a-secret" not in page
    assert "a-secret" not in json.dumps(agent.snapshot())


def test_who_has_the_token_can_ask_the_job_for_a_profiler_window(
    start_agent: Start, token_file: Path, tmp_path: Path
) -> None:
    agent = start_agent(metrics_token_file=token_file, run_folder=str(tmp_path))
    profile = agent.address().replace("/metrics", "/profile")
    assert ask(f"{profile}?seconds=2", "wrong", "POST")[0] == 401
    assert ask(f"{profile}?seconds=30&keep=true", "a-secret", "POST") == (
        202,
        b'{"asked": true, "seconds": 30.0, "keep": true}\n',
    )
    status, reason = ask(f"{profile}?seconds=60", "a-secret", "POST")
    assert status == 409
    assert b"lasts" in reason
    agent.listen_until(lambda: agent.profiles)
    assert agent.profiles == [(30.0, True)]


def test_a_trace_cannot_be_kept_where_no_directory_was_given(start_agent: Start, token_file: Path) -> None:
    agent = start_agent(metrics_token_file=token_file)
    profile = agent.address().replace("/metrics", "/profile")
    status, reason = ask(f"{profile}?keep=true", "a-secret", "POST")
    assert status == 409
    assert b"JAXOBS_RUN_DIRECTORY" in reason
    assert ask(f"{profile}?seconds=0.01", "a-secret", "POST")[0] == 202
    time.sleep(0.02)
    assert ask(profile, "a-secret", "POST")[0] == 202  # the first is over
    agent.listen_until(lambda: len(agent.profiles) == 2)
    assert agent.profiles == [(0.01, False), (1.0, False)]


def test_a_token_that_cannot_be_read_is_an_error_and_nothing_is_served(
    start_agent: Start, tmp_path: Path
) -> None:
    agent = start_agent(metrics_token_file=tmp_path / "nowhere")
    document = agent.snapshot_when(lambda found: not found["sources"]["prometheus"]["up"])
    assert "metrics_token_file: " in document["sources"]["prometheus"]["reason"]
    assert document["process"]["address"] is None
    assert any("nowhere cannot be read" in line for line in agent.logs)
