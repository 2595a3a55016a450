"""The live view driven by Textual's own pilot, with the servers of agents: what is wrong, ranks, and sizes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from benchmarks.beside import free_port
from jaxobs.cli.top.servers import Access, SnapshotClient, target_of
from jaxobs.cli.top.view import SortedTable, TopApp
from jaxobs.cli.top.watch import Watch, Watched
from tests.sample_document import document, loop


def watched(addresses: list[str], story: Callable[[TopApp, Any], Awaitable[None]], **access: Any) -> None:
    """Runs the view of these addresses while `story` presses its keys."""
    targets = [target_of(address) for address in addresses]
    watch = Watch(lambda: targets, Access(**access))

    async def run() -> None:
        app = TopApp(watch, 0.3)
        async with app.run_test(size=(80, 24)) as pilot:
            await story(app, pilot)

    try:
        asyncio.run(run())
    finally:
        watch.close()


async def until(app: TopApp, pilot: Any, what: Callable[[], object]) -> None:
    for _ in range(200):
        if what():
            return
        await pilot.pause(0.05)
    raise AssertionError(f"not within ten seconds; the top of the view says: {opening(app)}")


def opening(app: TopApp) -> str:
    return str(app.query_one("#opening").render())


def rank(index: int, **changed: Any) -> dict[str, Any]:
    process = {**document()["process"], "process_index": index, "pid": 100 + index}
    return document(process=process, **changed)


def test_the_end_of_the_job_is_said_and_what_was_known_stays(serve: Callable) -> None:
    served = serve(document())

    async def story(app: TopApp, pilot: Any) -> None:
        await until(app, pilot, lambda: "train runs at 100 steps/s" in opening(app))
        served.stop()
        await until(app, pilot, lambda: "the job has ended, or its agent is lost" in opening(app))
        assert "train runs at 100 steps/s" in opening(app)

    watched([served.address], story)


def test_a_job_that_begins_later_is_shown_when_it_does(
    serve: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()

    async def story(app: TopApp, pilot: Any) -> None:
        await until(app, pilot, lambda: "nothing listens" in opening(app))
        monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", str(port))
        serve(document())
        await until(app, pilot, lambda: "train runs at 100 steps/s" in opening(app))
        assert "nothing listens" not in opening(app)

    watched([f"localhost:{port}"], story)


def test_a_refused_token_is_said(serve: Callable, tmp_path: Any) -> None:
    (tmp_path / "token").write_text("0123456789abcdef")
    address = serve(document(), metrics_token_file=tmp_path / "token").address

    async def story(app: TopApp, pilot: Any) -> None:
        await until(app, pilot, lambda: "refuses this token" in opening(app))

    watched([address], story, token="another")


def test_rows_are_sorted_by_a_key_and_stay_so_when_figures_change(serve: Callable) -> None:
    served = serve(document(5))

    async def story(app: TopApp, pilot: Any) -> None:
        await until(app, pilot, lambda: "train" in opening(app))
        await pilot.press("3")
        table = app.query_one("#executables", SortedTable)
        while not str(table._sorted_by).startswith("per run"):
            await pilot.press("s")
        took = [row["seconds_per_run"] for row in table.rows_shown]
        assert took == sorted(took, reverse=True)
        await pilot.press("r")
        assert [row["seconds_per_run"] for row in table.rows_shown] == took[::-1]
        served.show(document(7))
        await until(app, pilot, lambda: len(table.rows_shown) == 7)
        took = [row["seconds_per_run"] for row in table.rows_shown]
        assert took == sorted(took)

    watched([served.address], story)


def test_the_rank_that_is_chosen_is_the_one_that_is_shown(serve: Callable) -> None:
    addresses = [serve(rank(index), index).address for index in (1, 0, 2)]

    async def story(app: TopApp, pilot: Any) -> None:
        def differs(shown: str) -> bool:
            return opening(app) != shown

        table = app.query_one("#ranks", SortedTable)
        await until(app, pilot, lambda: [row["rank"] for row in table.rows_shown] == [0, 1, 2])
        for _ in range(4):
            shown = opening(app)
            await pilot.press("n")
            await until(app, pilot, partial(differs, shown))
            assert f"rank {table.rows_shown[table.cursor_row]['rank']} of 4" in opening(app)

    watched(addresses, story)


def test_a_rank_that_answered_since_the_table_was_drawn_can_be_chosen(serve: Callable) -> None:
    addresses = [serve(rank(index), index).address for index in (0, 1)]
    new = target_of(serve(rank(2), 2).address)

    async def story(app: TopApp, pilot: Any) -> None:
        table = app.query_one("#ranks", SortedTable)
        await until(app, pilot, lambda: [row["rank"] for row in table.rows_shown] == [0, 1])
        begun, held = asyncio.Event(), threading.Event()
        running, real = asyncio.get_running_loop(), app._watch.refresh

        def refresh(timeout: float) -> None:  # whose thread alone changes the list
            if not begun.is_set():
                app._watch.ranks.append(Watched(new, SnapshotClient(new, Access()), rank(2)))
                running.call_soon_threadsafe(begun.set)
                held.wait(10)
            real(timeout)

        app._watch.refresh = refresh  # type: ignore[method-assign]
        await begun.wait()
        app.action_rank(-1)
        assert "rank 2 of 4" in opening(app)
        assert table.rows_shown[table.cursor_row]["rank"] == 2
        held.set()

    watched(addresses, story)


def test_another_loop_is_shown_on_a_key(serve: Callable) -> None:
    served = serve(document(loops={"train": loop(compute=9.0), "eval": loop(7)}))

    async def story(app: TopApp, pilot: Any) -> None:
        await until(app, pilot, lambda: opening(app).count("train runs"))
        await pilot.press("l")
        assert "eval" in opening(app)

    watched([served.address], story)


@pytest.mark.long
def test_any_size_can_be_drawn(serve: Callable) -> None:
    served = serve(document(40, 40))

    async def story(app: TopApp, pilot: Any) -> None:
        await until(app, pilot, lambda: "train" in opening(app))
        for size in ((30, 8), (119, 35), (10, 3), (160, 50)):
            await pilot.resize_terminal(*size)
            for key in "12345":
                await pilot.press(key)
        assert app.query_one("#steps").display
        assert app.query_one("#roofline").display
        await pilot.resize_terminal(200, 60)
        await pilot.pause()
        panels = [
            app.query_one(f"#{name}")
            for name in ("steps", "roofline", "executables", "operations", "compiles")
        ]
        assert all(panel.display and panel.size.height >= 8 for panel in panels)

    watched([served.address], story)


def test_names_of_the_program_are_shown_as_they_are(serve: Callable) -> None:
    name = "[red]train[/]\x1b[31m"
    served = serve(document(loops={name: loop()}))

    async def story(app: TopApp, pilot: Any) -> None:
        await until(app, pilot, lambda: "[red]train[/]\N{REPLACEMENT CHARACTER}[31m" in opening(app))

    watched([served.address], story)
