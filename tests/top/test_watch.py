"""What `jaxobs top` keeps of each rank, and whom it shows its token."""

from __future__ import annotations

import http.server
import threading
from typing import Any

import pytest

from jaxobs.cli.console.live_view.addresses import Target
from jaxobs.cli.console.live_view.client import Access, Answer, NoSnapshotError, SnapshotClient
from jaxobs.cli.console.live_view.watch import Watched

HERE = Target("http", "127.0.0.1", 9464)


def process(seconds: float, **more: Any) -> dict[str, Any]:
    return {"process": {"pid": 1, "seconds": seconds, "counts_begin_seconds": None, **more}}


@pytest.mark.parametrize(
    "later", [process(3.0), process(60.0, pid=2), process(60.0, counts_begin_seconds=40.0)], ids=str
)
def test_the_history_of_another_process_or_agent_at_the_same_port_begins_anew(later: dict[str, Any]) -> None:
    watched = Watched(HERE, SnapshotClient(HERE, Access()))
    for at in range(0, 50, 5):
        watched.take(Answer(1_000.0 + at, process(float(at)), ()), float(at))
    assert len(watched.history.trend().times) == 10
    watched.take(Answer(1_055.0, later, ()), 55.0)
    assert len(watched.history.trend().times) == 1


@pytest.mark.parametrize("guessed", [True, False])
def test_a_server_whose_address_is_a_guess_is_asked_without_the_token(guessed: bool) -> None:
    heard: list[str | None] = []

    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("Authorization"))
            self.send_error(404)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=server.serve_forever).start()
    try:
        target = Target("http", "127.0.0.1", server.server_port, guessed=guessed)
        client = SnapshotClient(target, Access("secret"))
        with pytest.raises(NoSnapshotError):
            client.fetch()
        client.close()
    finally:
        server.shutdown()
        server.server_close()
    assert heard == [None if guessed else "Bearer secret"]
