"""Credentials whose files change, vanish, spoil, or do not answer at all while a job runs."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxobs_plugins.prometheus import PrometheusExporter, background_call, checking
from jaxobs_plugins.prometheus.credentials import followed as followed_credentials
from jaxobs_plugins.prometheus.credentials.files import CredentialsError
from jaxobs_plugins.prometheus.credentials.followed import FollowedCredentials, NotYetReadError
from tests.prometheus.dead_mount import DeadMount

SECRET = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(SECRET)
    return path


def follow(lines: list[str], **settings: Any) -> FollowedCredentials:
    credentials = FollowedCredentials(settings, lines.append)
    credentials.read_first()
    return credentials


def admits(credentials: FollowedCredentials, secret: str) -> bool:
    assert credentials.token is not None
    return credentials.token.admits(f"Bearer {secret}")


def follow_until(credentials: FollowedCredentials, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        credentials.follow()
        time.sleep(0.05)


def test_a_problem_is_said_once_until_it_is_another_or_over(token_file: Path, lines: list[str]) -> None:
    credentials = follow(lines, metrics_token_file=token_file)
    token_file.write_text("two words")
    credentials.follow()
    credentials.follow()
    assert len(lines) == 1
    assert "does not hold one token" in lines[0]
    assert "stays in use" in lines[0]
    token_file.unlink()
    credentials.follow()
    credentials.follow()
    assert len(lines) == 2
    assert "No such file" in lines[1]
    assert admits(credentials, SECRET)
    token_file.write_text("another")
    credentials.follow()
    assert admits(credentials, "another")
    token_file.write_text("two words")
    credentials.follow()
    assert len(lines) == 3


def test_a_file_that_could_not_be_read_is_tried_again_until_it_can(
    token_file: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = follow(lines, metrics_token_file=token_file)
    token_file.write_text("a-new-one")

    def no_descriptor_left(*_: Any, **__: Any) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_descriptor_left)
        credentials.follow()
        credentials.follow()
    assert len(lines) == 1
    assert "Too many open files" in lines[0]
    assert admits(credentials, SECRET)
    credentials.follow()  # though nobody has written it since
    assert admits(credentials, "a-new-one")


def test_a_certificate_that_cannot_be_used_keeps_no_replaced_token_in_use(
    token_file: Path, certificates: Any, tmp_path: Path, lines: list[str]
) -> None:
    certificate = tmp_path / "both.pem"
    certificate.write_bytes(certificates.leaf.read_bytes() + certificates.key.read_bytes())
    credentials = follow(lines, metrics_token_file=token_file, metrics_tls_certificate=certificate)
    before = credentials.tls
    token_file.write_text("another")
    certificate.write_bytes(certificates.leaf.read_bytes())  # the key is on its way
    credentials.follow()
    assert admits(credentials, "another")
    assert credentials.tls is before
    assert len(lines) == 1
    assert lines[0].startswith("metrics_tls_certificate: ")


def test_a_token_that_becomes_a_fifo_is_said_and_the_old_one_stays(
    token_file: Path, lines: list[str]
) -> None:
    credentials = follow(lines, metrics_token_file=token_file)
    token_file.unlink()
    os.mkfifo(token_file)
    began = time.monotonic()
    credentials.follow()
    assert time.monotonic() - began < 30
    assert admits(credentials, SECRET)
    assert "not a regular file" in lines[0]
    token_file.unlink()
    token_file.write_text("another")
    credentials.follow()
    assert admits(credentials, "another")


def test_files_that_do_not_answer_leave_the_old_ones_in_use_and_are_said_once(
    dead_mount: DeadMount, token_file: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_credentials, "NO_ANSWER_SECONDS", 2.0)
    path = dead_mount.directory / "token"
    path.write_text(SECRET)
    credentials = follow(lines, metrics_token_file=path)
    threads = threading.active_count()
    dead_mount.die()
    began = time.monotonic()
    for _ in range(20):
        credentials.follow()
    assert time.monotonic() - began < 2 * followed_credentials.NEXT_SECONDS
    assert threading.active_count() == threads + 1  # however often it was asked
    follow_until(credentials, lambda: bool(lines))
    credentials.follow()
    [line] = lines
    assert line.startswith(f"metrics_token_file: {path} has not answered for 2 s; what was read before stays")
    assert admits(credentials, SECRET)
    dead_mount.revive()
    path.write_text("another")
    follow_until(credentials, lambda: admits(credentials, "another"))
    assert threading.active_count() == threads


@pytest.mark.parametrize("setting", ["metrics_tls_certificate", "metrics_tls_key"])
def test_a_certificate_that_does_not_answer_keeps_no_replaced_token_in_use(
    dead_mount: DeadMount, token_file: Path, certificates: Any, lines: list[str], setting: str
) -> None:
    settings = {
        "metrics_tls_certificate": certificates.leaf,
        "metrics_tls_key": certificates.key,
        "metrics_token_file": token_file,
    }
    away = dead_mount.directory / "file.pem"
    away.write_bytes(settings[setting].read_bytes())
    credentials = follow(lines, **{**settings, setting: away})
    before = credentials.tls
    dead_mount.die()
    for secret in ("another", "a-third"):
        token_file.write_text(secret)
        credentials.follow()
        assert admits(credentials, secret)
    assert credentials.tls is before


def test_before_the_files_have_answered_nothing_is_known(
    dead_mount: DeadMount, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_credentials, "FIRST_SECONDS", 0.3)
    path = dead_mount.directory / "token"
    path.write_text(SECRET)
    dead_mount.die()
    credentials = FollowedCredentials({"metrics_token_file": path}, lines.append)
    for _ in range(2):
        with pytest.raises(
            NotYetReadError, match=f"metrics_token_file: {path}: no answer for .*nothing is served"
        ):
            credentials.read_first()
        with pytest.raises(CredentialsError, match="has not been read yet"):
            _ = credentials.token
    dead_mount.revive()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            credentials.read_first()
            break
        except CredentialsError:  # what hung ends with an error, and is tried again
            time.sleep(0.05)
    assert admits(credentials, SECRET)
    assert lines == []


@pytest.mark.parametrize("setting", ["metrics_token_file", "metrics_tls_certificate", "file_sd_directory"])
def test_check_does_not_hang_with_the_files(
    dead_mount: DeadMount, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    for module in (followed_credentials, checking):
        monkeypatch.setattr(module, "FIRST_SECONDS", 1.0)
    dead_mount.die()
    began = time.monotonic()
    found = list(PrometheusExporter().check({setting: str(dead_mount.directory / "file")}))
    assert time.monotonic() - began < 30
    [problem] = [remark.text for remark in found if remark.problem]
    assert str(dead_mount.directory / "file") in problem
    assert "no answer for 1 s" in problem


def test_a_call_is_made_once_however_many_ask() -> None:
    leave, called = threading.Event(), []

    def slow() -> int:
        called.append(1)
        leave.wait(10)
        return len(called)

    call = background_call.BackgroundCall(slow, "slow")
    for patience in (0.0, 0.1, 0.0):
        with pytest.raises(background_call.NoAnswerError):
            call.result(patience)
    leave.set()
    assert [call.result(5), call.result(5)] == [1, 2]


def test_the_error_of_a_call_that_hung_is_not_told_but_another_one_made() -> None:
    leave = threading.Event()
    answers: Iterator[OSError | int] = iter([OSError("gone"), 2])

    def hang_once() -> int:
        leave.wait(10)
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    call = background_call.BackgroundCall(hang_once, "hangs")
    with pytest.raises(background_call.NoAnswerError):
        call.result(0.0)
    leave.set()
    assert call.result(5) == 2


def test_what_a_call_raises_is_raised_where_it_is_asked_for() -> None:
    def fail() -> None:
        raise KeyError("no")

    call = background_call.BackgroundCall(fail, "fails")
    for _ in range(2):
        with pytest.raises(KeyError, match="no"):
            call.result(5)
