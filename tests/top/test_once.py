"""`jaxobs top --once`: what it writes, and what is wrong in one line with exit status 2."""

from __future__ import annotations

import http.server
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.launched import command, outcome
from tests.jobs import Outcome
from tests.sample_document import document, loop
from tests.waiting import wait_for

SECRET = "0123456789abcdef"


def rank(index: int, **seconds: Any) -> dict[str, Any]:
    process = {**document()["process"], "process_index": index, "pid": 100 + index}
    return document(process=process, loops={"train": loop(**seconds)})


@contextmanager
def answering(status: int, body: bytes, headers: dict[str, str] | None = None) -> Iterator[str]:
    """A server that says the same to everybody."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def failed(answered: Outcome) -> str:
    """The one line of a failure."""
    assert answered.status == 2
    assert answered.stdout == ""
    [line] = answered.stderr.splitlines()
    return line


def test_one_job_is_its_summary(serve: Callable, tmp_path: Path) -> None:
    served = serve(document())
    answered = command("top", "--once", served.address, folder=tmp_path)
    assert (answered.status, answered.stderr) == (0, "")
    assert "`train` runs at 100 steps/s" in answered.stdout
    assert "ranks" not in answered.stdout


def test_the_rank_that_lags_is_marked_and_summed_up(serve: Callable, tmp_path: Path) -> None:
    waits = {"compute": 0.5, "input": 0.0, "communication": 0.5}
    ranks = [serve(rank(0, **waits)), serve(rank(1, compute=0.5, input=0.5), 1), serve(rank(2, **waits), 2)]
    answered = command("top", *(served.address for served in ranks), folder=tmp_path)  # a pipe, so once
    assert answered.status == 0
    [marked] = [line for line in answered.stdout.splitlines() if "◀ lags" in line]
    assert marked.startswith("1 ◀ lags")
    assert "50 %" in marked
    assert "rank 1, which lags" in answered.stdout


def test_neighbours_that_a_server_names_are_asked_too(
    serve: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for index, alive in enumerate(
        (1, os.getppid(), os.getpid())
    ):  # files of processes that are gone are removed
        monkeypatch.setattr("os.getpid", lambda alive=alive: alive)
        found.append(serve(rank(index), index, file_sd_directory=tmp_path))
    wait_for(lambda: len(list(tmp_path.glob("*.json"))) == len(found), "all files", 60)
    for source, shown in ((found[1].address, "rank 1"), (str(tmp_path), "rank 0")):
        answered = command("top", "--once", source, folder=tmp_path)
        rows = answered.stdout.splitlines()[2:5]
        assert [row.split()[0] for row in rows] == ["0", "1", "2"], answered
        assert shown in answered.stdout.splitlines()


def test_nothing_listens(serve: Callable, tmp_path: Path) -> None:
    served = serve(document())
    served.stop()
    assert "nothing listens at localhost:" in failed(
        command("top", "--once", served.address, folder=tmp_path)
    )


def test_a_token_is_asked_for_refused_and_taken(serve: Callable, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET + "\n")
    (tmp_path / "wrong").write_text(SECRET + "x")
    address = serve(document(), metrics_token_file=tmp_path / "token").address
    assert "wants a token: give --token-file" in failed(command("top", address, folder=tmp_path))
    assert "refuses this token" in failed(command("top", address, "--token-file", "wrong", folder=tmp_path))
    assert command("top", address, "--token-file", "token", folder=tmp_path).status == 0
    assert command("top", address, folder=tmp_path, JAXOBS_METRICS_TOKEN_FILE="token").status == 0


def test_tls_with_an_authority_of_ones_own(serve: Callable, certificates: Any, tmp_path: Path) -> None:
    settings = {"metrics_tls_certificate": certificates.leaf, "metrics_tls_key": certificates.key}
    address = serve(document(), **settings).address
    assert address.startswith("https://")
    assert "is not believed" in failed(command("top", address, folder=tmp_path))
    assert command("top", address, "--ca-file", str(certificates.authority), folder=tmp_path).status == 0
    plain = address.replace("https", "http")
    assert "say https://" in failed(command("top", plain, folder=tmp_path))
    other = serve(document()).address.replace("http", "https")
    assert "does not speak TLS" in failed(command("top", other, folder=tmp_path))


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (404, b"", "no metrics server of jaxobs: it answers 404"),
        (200, b"[" * 100_000, "its /snapshot is something else"),
        (200, b"<html>", "its /snapshot is something else"),
        (200, b'{"version": 1}', "its /snapshot is something else"),
        (200, b'{"version": 2, "snapshot": {}}', "of version 2, not 1: take the jaxobs"),
        (503, b"", "it answers 503"),
    ],
)
def test_other_servers_are_named_as_what_they_are(
    status: int, body: bytes, says: str, tmp_path: Path
) -> None:
    with answering(status, body) as address:
        assert says in failed(command("top", "--once", address, folder=tmp_path))


@pytest.mark.parametrize("ranks", [5, 1e300, "host:1", {"address": "host:1"}, None])
def test_ranks_that_are_no_list_are_none(ranks: Any, tmp_path: Path) -> None:
    answer = {"version": 1, "unix_seconds": 1.0, "snapshot": document(), "ranks": ranks}
    with answering(200, json.dumps(answer).encode()) as address:
        shown = command("top", "--once", address, folder=tmp_path)
    assert (shown.status, shown.stderr) == (0, "")


def test_the_token_is_not_taken_to_where_a_server_sends_one(serve: Callable, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    address = serve(document(), metrics_token_file=tmp_path / "token").address
    with answering(302, b"", {"Location": address + "snapshot"}) as redirecting:
        line = failed(command("top", redirecting, "--token-file", "token", folder=tmp_path))
    assert "answers 302" in line


@pytest.mark.parametrize("stranger", ["http://127.0.0.2:{port}/", "no address", 7])
def test_the_token_goes_to_no_other_host_that_a_server_names(stranger: Any, tmp_path: Path) -> None:
    asked: list[str] = []

    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Authorization", ""))
            self.send_error(404)

        def log_message(self, *arguments: Any) -> None:
            pass

    (tmp_path / "token").write_text(SECRET)
    elsewhere = http.server.ThreadingHTTPServer(("127.0.0.2", 0), Stranger)
    threading.Thread(target=elsewhere.serve_forever).start()
    try:
        named = stranger.format(port=elsewhere.server_port) if isinstance(stranger, str) else stranger
        answer = {"version": 1, "unix_seconds": 1.0, "snapshot": document(), "ranks": [{"address": named}]}
        with answering(200, json.dumps(answer).encode()) as address:
            answered = command("top", "--once", address, "--token-file", "token", folder=tmp_path)
            assert (answered.status, answered.stderr, asked) == (0, "", [])
            command("top", "--once", address, folder=tmp_path)
        assert set(asked) == ({""} if named != stranger else set())  # without a token it is asked
    finally:
        elsewhere.shutdown()
        elsewhere.server_close()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--onec"], "unknown option --onec (did you mean --once?)"),
        (["node1"], "has no port, and is no directory"),
        (["ftp://node1:9464"], "is no address"),
        (["http://proxy:80/another/job"], "is no address"),
        (["http://user:secret@node1:9464"], "give the token with --token-file"),
        (["localhost:99999"], "is no address"),
        (["localhost:1", "--token-file", "absent"], "cannot read the token in absent"),
        (["localhost:1", "--ca-file", "absent"], "--ca-file absent"),
        (["."], "JAXOBS_FILE_SD_DIRECTORY=."),
        (["no.such.host.invalid:1"], "cannot reach no.such.host.invalid:1"),
        (["host..invalid:1"], "cannot reach host..invalid:1: no host has such a name"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], says: str, tmp_path: Path) -> None:
    assert says in failed(command("top", "--once", *arguments, folder=tmp_path))


@pytest.mark.parametrize(
    "variable", ["OTEL_EXPORTER_PROMETHEUS_PORT", "JAXOBS_METRICS_PORT", "jaxobs_metrics_port"]
)
def test_the_default_is_the_port_of_the_environment(variable: str, serve: Callable, tmp_path: Path) -> None:
    served = serve(document())
    port = served.address.rstrip("/").rpartition(":")[2]
    answered = command("top", folder=tmp_path, **{variable: port})
    assert "`train` runs at 100 steps/s" in answered.stdout


def test_once_needs_no_textual_and_the_live_view_says_so(serve: Callable, tmp_path: Path) -> None:
    address = serve(document()).address
    without = "import sys; sys.modules['textual'] = None; from jaxobs.cli import main; "
    once = outcome([sys.executable, "-c", f"{without} sys.exit(main(['top', {address!r}]))"], tmp_path)
    assert once.status == 0, once
    seen = f"{without} sys.stdout.isatty = lambda: True; sys.exit(main(['top', {address!r}]))"
    assert "pip install 'jaxobs[top]'" in failed(outcome([sys.executable, "-c", seen], tmp_path))
