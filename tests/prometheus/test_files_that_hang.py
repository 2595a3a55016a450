"""Files of the settings that do not answer while a job runs, or at its start."""

import os
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxobs_plugins.prometheus import file_work
from jaxobs_plugins.prometheus.exporter import PrometheusExporter
from jaxobs_plugins.prometheus.file_work import FileWork
from tests.prometheus.dead_mount import DeadMount
from tests.prometheus.test_exporter import batch, steps
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def any_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    monkeypatch.delenv("OTEL_EXPORTER_PROMETHEUS_HOST", raising=False)


def get(address: str, token: str, tls: ssl.SSLContext | None = None) -> str:
    asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=5, context=tls) as response:
        return str(response.read(), "utf-8")


def test_where_the_tokens_file_does_not_answer_at_the_start_nothing_is_served(
    make_agent: Callable, dead_mount: DeadMount
) -> None:
    token = dead_mount.directory / "token"
    token.write_text("a-secret")
    dead_mount.die()
    agent = make_agent(metrics_token_file=str(token))
    exporter = PrometheusExporter()
    raised: list[Exception] = []

    def start() -> None:
        try:
            exporter.start(agent)
        except ValueError as error:
            raised.append(error)

    starting = threading.Thread(target=start, daemon=True)
    starting.start()
    starting.join(0.3)
    assert starting.is_alive()
    exporter.job_ended()  # on other threads, and waits for nothing
    exporter.stop(5)
    dead_mount.revive()  # by which what hung fails
    starting.join(10)
    assert not starting.is_alive()
    assert "metrics_token_file" in str(raised)
    assert agent.addresses == []


@pytest.mark.parametrize("hangs", ["the files do not answer", "a fifo"])
def test_the_page_goes_on_where_the_files_hang(
    make_agent: Callable,
    dead_mount: DeadMount,
    certificates: Any,
    hangs: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_work, "NO_ANSWER_SECONDS", 0.5)
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

    def line() -> list[str]:
        exporter.export(batch(steps(1)))
        return [line for line in agent.lines if line.startswith("metrics_token_file: ")]

    [said] = wait_for(line, "a line about the files")
    reason = "not a regular file" if hangs == "a fifo" else "has not answered for 0 s"
    assert reason in said
    assert said.endswith("; what was read before stays in use, and it is tried again")
    exporter.export(batch(steps(49)))
    assert 'jaxobs_steps_total{loop="train"} 49.0\n' in get(agent.addresses[0], "a-secret", tls)
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        get(agent.addresses[0], "another", tls)
    refused.value.close()
    dead_mount.revive()
    token.unlink(missing_ok=True)
    token.write_text("another")

    def status() -> bool:
        exporter.export(batch(steps(50)))
        try:
            return "50.0" in get(agent.addresses[0], "another", tls)
        except urllib.error.HTTPError as refused:
            refused.close()
            return False

    wait_for(status, "the new token to be admitted")
    exporter.stop(5)


def test_work_is_done_by_one_thread_however_often_it_is_asked_for() -> None:
    entered, leave, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        entered.set()
        leave.wait(10)
        done.append(threading.current_thread())

    work = FileWork(slow, "slow", lambda _: None)
    work.soon()
    assert entered.wait(10)
    for _ in range(20):
        assert not work.done(0.0)
    thread = work.soon()
    leave.set()
    thread.join(10)
    assert done == [thread, thread]  # what was under way, and once more for all that asked meanwhile


def test_a_problem_is_said_once_until_it_is_another_or_over(tmp_path: Path) -> None:
    lines: list[str] = []
    problems = iter(["no", "no", "other", "", "other"])
    done = threading.Semaphore(0)

    def fail() -> None:
        done.release()
        if problem := next(problems, ""):
            raise ValueError(problem)

    work = FileWork(fail, tmp_path, lines.append)
    for _ in range(5):
        work.soon()
        assert done.acquire(timeout=10)
    assert work.done(10)
    assert lines == ["no", "other", "other"]
