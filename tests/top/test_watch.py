"""What `jaxobs top` keeps of each rank, and whom it shows its token."""

from __future__ import annotations

import http.server
import json
import threading
from concurrent.futures import Future
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from jaxobs.cli.top.servers import Access, Answer, SnapshotClient, Target, distinct, targets_in
from jaxobs.cli.top.watch import Watch, Watched, _place

HERE = Target("http", "127.0.0.1", 9464)


def process(seconds: float) -> dict[str, Any]:
    return {"process": {"pid": 1, "seconds": seconds, "counts_begin_seconds": None}}


def test_a_rank_with_a_long_interval_is_not_taken_to_be_silent_before_its_next_snapshot_is_due() -> None:
    watched = Watched(HERE, SnapshotClient(HERE, Access()))
    for at in range(0, 130, 5):
        watched.take(Answer(1_000.0 + at // 30 * 30, process(float(at)), ()), float(at))
        assert watched.problem is None, at
    for late, is_old in ((159.0, False), (161.0, True)):
        watched.take(Answer(1_120.0, process(120.0), ()), late)
        assert (watched.problem is not None) is is_old


def test_no_rank_is_away_while_the_ranks_are_put_in_order() -> None:
    seen: list[int] = []

    class Looked(dict[str, Any]):
        """Is looked at meanwhile, as the view does on a thread of its own."""

        def get(self, key: str, default: Any = None) -> Any:
            seen.append(len(watch.ranks))
            return super().get(key, default)

    watch = Watch(list, Access())
    watch.ranks = [Watched(HERE, SnapshotClient(HERE, Access())) for _ in range(3)]
    watch.ranks[1].document = Looked(process(1.0))
    answered: Future[Answer] = Future()
    answered.set_result(Answer(1_000.0, process(1.0), ()))
    watch._take(answered, watch.ranks[0])
    watch.close()
    assert seen == [3]


def test_the_ranks_of_a_run_stand_together_beside_those_of_another_of_its_name() -> None:
    ranks = [Watched(HERE, SnapshotClient(HERE, Access())) for _ in range(4)]
    for number, (rank, run_id) in enumerate(product((0, 1), "ab")):
        ranks[number].document = {"process": {"run": "train", "run_id": run_id, "process_index": rank}}
    assert sorted(ranks, key=_place) == [ranks[number] for number in (0, 2, 1, 3)]


def test_a_malformed_address_in_a_directory_hides_no_other(tmp_path: Path) -> None:
    for name, address in (("a", "node1:99999"), ("b", "[1.2.3]:9464"), ("c", "node1:9464")):
        group = {"targets": [address], "labels": {"jaxobs_rank": "0"}}
        (tmp_path / f"{name}.json").write_text(json.dumps([group]))
    assert [str(target) for target in targets_in(tmp_path)] == ["node1:9464"]


@pytest.mark.parametrize("token", [None, "secret"])
def test_a_token_goes_to_no_guess_but_to_the_same_rank_where_its_server_names_it(token: str | None) -> None:
    heard: dict[str, set[str | None]] = {"named": set(), "guessed": set()}
    both: dict[str, http.server.ThreadingHTTPServer] = {}

    class Rank(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = next(name for name in both if both[name] is self.server)
            heard[name].add(self.headers.get("Authorization"))
            ranks = [{"address": f"http://127.0.0.1:{both['guessed'].server_port}/"}] if naming else []
            body = json.dumps(
                {"version": 1, "unix_seconds": 1.0, "snapshot": process(1.0), "ranks": ranks}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    naming = False
    for name in heard:
        both[name] = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Rank)
        threading.Thread(target=both[name].serve_forever).start()
    targets = [
        Target("http", "127.0.0.1", both[name].server_port, guessed=name == "guessed") for name in both
    ]
    watch = Watch(lambda: targets, Access(token))
    try:
        watch.refresh(5.0)
        assert heard["guessed"] == ({None} if token is None else set())
        naming = True
        watch.refresh(5.0)
        assert heard["guessed"] == heard["named"] == {None if token is None else f"Bearer {token}"}
        assert len(watch.ranks) == 2
    finally:
        watch.close()
        for server in both.values():
            server.shutdown()
            server.server_close()


def test_a_port_that_several_files_name_is_one_rank(tmp_path: Path) -> None:
    """The file of a process that was killed with its agent may stay, and another have its port."""
    for name, instance in (("a", "first"), ("b", "second")):
        labels = {"jaxobs_rank": "0", "__param_instance": instance}
        (tmp_path / f"{name}.json").write_text(json.dumps([{"targets": ["node1:9464"], "labels": labels}]))
    assert [str(target) for target in distinct(targets_in(tmp_path))] == ["node1:9464"]
