"""The live page and the snapshot over HTTP: what is answered, to whom, and what the browser is told to refuse."""

import base64
import gzip
import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.metrics import Family, Metric
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from jaxobs.report.pprof import profile
from jaxobs.report.view import Rank
from jaxobs_plugins.prometheus.access import Token
from jaxobs_plugins.prometheus.address import Neighbours, TargetFile, meeting_place, target_group
from jaxobs_plugins.prometheus.exporter import PrometheusExporter
from jaxobs_plugins.prometheus.pages import Pages, answer
from jaxobs_plugins.prometheus.server import Request
from tests.prometheus.conftest import LOOPBACK
from tests.report.markup_reading import Read
from tests.sample_document import device_time, document, loop
from tests.waiting import wait_for

SECRET = "0af7651916cd43dd8448eb211c80319c"


def basic(password: str, name: str = "anyone") -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def live(**changed) -> Pages:
    shown = Pages({})
    shown.show(SnapshotData(10**9, document(**changed)))
    return shown


def test_before_the_first_snapshot_the_page_says_so(serve: Callable) -> None:
    status, headers, body = serve().get("/")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert "the first snapshot is on its way" in Read(body.decode()).text


def test_the_page_and_the_snapshot_are_those_of_the_last_export(
    make_agent: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    agent = make_agent()
    exporter = PrometheusExporter()
    exporter.start(agent)
    try:
        for steps in (100, 200):
            found = document(loops={"train": loop(steps, compute=1.6)})
            exporter.export(Batch(SnapshotData(steps * 10**9, found), (), ()))
            page, snapshot = (
                answer(Request("GET", path, {}), exporter._pages, LOOPBACK).body
                for path in ("/", "/snapshot")
            )
            assert f"train runs at {steps / 2:g} steps/s" in Read(page.decode()).text
            told = json.loads(snapshot)
            assert told["version"] == 1
            assert told["unix_seconds"] == pytest.approx(time.time(), abs=60)
            assert told["snapshot"] == found
    finally:
        exporter.stop(5)


def test_a_page_is_drawn_once_for_each_snapshot_and_loop() -> None:
    shown = live(loops={"train": loop(), "eval": loop()})
    assert shown.live() is shown.live()
    elsewhere = [shown.live(f"no{number}") for number in range(50)]
    assert all(body is elsewhere[0] for body in elsewhere)  # what is asked for fills no memory
    assert shown.live("eval") is not elsewhere[0]


def test_no_other_page_can_show_read_or_script_it() -> None:
    shown = live()
    page, snapshot = (
        answer(Request("GET", path, {}), shown, LOOPBACK).headers for path in ("/", "/snapshot")
    )
    directives = dict(each.strip().split(" ", 1) for each in page["Content-Security-Policy"].split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["frame-ancestors"] == directives["base-uri"] == directives["form-action"] == "'none'"
    assert directives["connect-src"] == "'self'"
    for kind in ("style-src", "script-src"):
        assert directives[kind].startswith("'sha256-")
        assert "unsafe" not in directives[kind]
    for headers in (page, snapshot):
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"


def test_gzip_on_request(serve: Callable) -> None:
    server = serve()
    for path in ("/", "/snapshot"):
        _, headers, body = server.get(path, Accept_Encoding="gzip")
        assert headers["content-encoding"] == "gzip"
        assert gzip.decompress(body)[:30] == server.get(path)[2][:30]
        assert len(body) < 0.6 * len(server.get(path)[2])


def test_another_process_on_this_port_is_not_taken_for_this_one(serve: Callable) -> None:
    server = serve(**{"service.instance.id": "this"})
    for path in ("/", "/snapshot"):
        assert server.get(f"{path}?instance=this")[0] == 200
        assert server.get(f"{path}?instance=other")[0] == 410


def test_a_browser_is_asked_for_the_token_as_a_password(serve: Callable) -> None:
    server = serve(token=Token(SECRET.encode()))
    status, headers, _ = server.get("/", Accept="text/html,*/*;q=0.8")
    assert status == 401
    assert headers["www-authenticate"].startswith("Basic ")
    for path in ("/", "/snapshot", "/metrics"):
        assert server.get(path, Authorization=basic(SECRET))[0] == 200
        assert server.get(path, Authorization=basic(SECRET, ""))[0] == 200
        assert server.get(path, Authorization=basic(SECRET + "x"))[0] == 401


def test_what_a_browser_sends_by_itself_asks_for_no_profile(serve: Callable) -> None:
    """Any web page can have a browser send a POST with the password that it remembers."""
    asked = []
    server = serve(token=Token(SECRET.encode()), ask=lambda seconds, keep: asked.append(seconds))
    assert server.get("/profile?seconds=1", "POST", Authorization=basic(SECRET))[0] == 401
    assert server.get("/profile?seconds=1", Authorization=basic(SECRET))[0] == 405  # and not "set a token"
    assert asked == []
    assert server.get("/profile?seconds=1", "POST", Authorization=f"Bearer {SECRET}")[0] == 202


@given(st.text(st.characters(max_codepoint=255), max_size=60))
def test_no_other_password_is_admitted(given: str) -> None:
    token = Token(SECRET.encode())
    assert token.admits_browser(basic(given)) is (given == SECRET)
    assert not token.admits_browser(f"Basic {given}")
    assert not token.admits_browser(f"Bearer {SECRET}")


def test_ranks_of_one_run_on_one_host_link_each_other_and_other_runs_of_its_name(
    tmp_path: Path,
) -> None:
    def resource(rank: int, run: str = "first", name: str = "train") -> dict[str, str]:
        return {
            "jaxobs.run": name, "jaxobs.run_id": run, "jax.process_index": str(rank),
            "service.instance.id": f"{run}-{rank}",
        }  # fmt: skip

    others = [resource(0), resource(1), resource(0, "second"), resource(0, "third", "evaluate")]
    for port, told in enumerate(others, 9464):  # as in containers, whose processes have the same number
        target = TargetFile(tmp_path, f"node1:{port}", "http", lambda _: None, private=True)
        target.write(told, {"rank": told["jax.process_index"]})
    name = next(tmp_path.iterdir()).name.rsplit("-", 1)[0]
    hostile = target_group("javascript:alert(1)//x:1", resource(2))
    for number, text in enumerate([json.dumps(hostile), "[]", "{", '[{"targets": 1, "labels": {}}]', "[1]"]):
        (tmp_path / f"{name}-{2000 + number}.json").write_text(text)
    (tmp_path / "jaxobs-elsewhere-1.json").write_text(json.dumps(target_group("node2:1", resource(3))))
    neighbours = Neighbours([tmp_path / "absent", tmp_path], resource(0))
    assert wait_for(neighbours.ranks, "the neighbours", 20) == (
        Rank("rank 0", None, {"rank": "0"}),
        Rank("rank 1", "http://node1:9465/", {"rank": "1"}),
        Rank("rank 0", "http://node1:9466/", {"rank": "0"}, of="second"),
    )


def test_ranks_find_each_other_where_no_directory_was_named(
    make_agent: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    exporters = []
    try:
        for rank in range(2):
            monkeypatch.setattr("os.getpid", lambda rank=rank: 1 + rank)  # both are alive
            agent = make_agent()
            agent.resource |= {
                "jaxobs.run": "x", "jax.process_index": str(rank), "service.instance.id": f"x{rank}"
            }  # fmt: skip
            exporters.append(PrometheusExporter())
            exporters[-1].start(agent)
        found = meeting_place()
        assert found is not None
        assert found.parent == tmp_path
        neighbours = Neighbours([found], agent.resource)
        wait_for(lambda: len(neighbours.ranks()) == 2, "both ranks", 60)
        assert [rank.name for rank in neighbours.ranks()] == ["rank 0", "rank 1"]
        assert found.stat().st_mode & 0o777 == 0o700
    finally:
        for exporter in exporters:
            exporter.stop(60)
    assert list(found.iterdir()) == []


def test_ranks_do_not_meet_where_others_may_write(tmp_path: Path) -> None:
    environment = {"XDG_RUNTIME_DIR": str(tmp_path)}
    place = tmp_path / "jaxobs"
    assert meeting_place(environment) == place
    place.mkdir(0o700)
    assert meeting_place(environment) == place
    place.chmod(0o770)
    assert meeting_place(environment) is None
    place.rmdir()
    place.symlink_to(tmp_path)
    assert meeting_place(environment) is None


def test_a_directory_that_is_not_there_gives_no_links(tmp_path: Path) -> None:
    neighbours = Neighbours([tmp_path / "absent"], {})
    for _ in range(5):
        assert neighbours.ranks() == ()


def test_the_page_of_a_large_job_is_small() -> None:
    """Of 300 executables, an hour of history, 2 000 series beside it."""
    shown = Pages({})
    series: dict[tuple[str, ...], float] = {(str(number),): 1.0 for number in range(2000)}
    families = (Family(Metric("jaxobs_steps_total", "counter", "Steps.", ("loop",)), series),)
    found = document(300, 81)
    for second in range(0, 3600, 5):
        loops = {"train": loop(1 + second, compute=1.0 + second)}
        shown.show(SnapshotData(second * 10**9, {**found, "loops": loops}, families))
    assert len(shown.live()) < 300_000


def test_nothing_is_drawn_unless_somebody_looks() -> None:
    """The history of snapshots that nobody looks at takes no more memory than its bound."""
    shown, found = Pages({}), document(300, 81)
    shown.show(SnapshotData(0, found))
    tracemalloc.start()
    for second in range(2000):
        shown.show(SnapshotData(second * 10**9, found))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 1_000_000


def test_device_time_is_served_for_pprof() -> None:
    request = Request("GET", "/flame.pb.gz", {})
    assert answer(request, live(), LOOPBACK).body == profile(device_time()["by_line"])
    absent = answer(request, live(device_time=None), LOOPBACK)
    assert (absent.status, absent.body) == (404, b"no profiler window has been read yet\n")
    absent = answer(Request("GET", "/host.pb.gz", {}), live(), LOOPBACK)
    assert (absent.status, absent.body) == (404, b"the main thread's stack has not been sampled yet\n")
