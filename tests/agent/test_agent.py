"""The agent process as the job meets it: what it derives, what it says of itself, and how it ends."""

from __future__ import annotations

import os
import pwd
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from benchmarks.costs.decoding import compiled_module
from jaxobs.agent import analysis
from jaxobs.agent.analysis import Analysis, ModuleDone
from jaxobs.flow import wire
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, now, wall_now
from jaxobs.model.events import (
    BackendFound,
    Event,
    ExecutableCreated,
    FunctionWatched,
    Measured,
    StepEnded,
)
from jaxobs.report.record import decoded
from jaxobs.report.runs import RECORD
from tests.agent.beside import AgentProcess, service_in_process
from tests.derive.made_up import unexplained

Start = Callable[..., AgentProcess]


def steps(count: int, runs: tuple[int, ...] = (1,), loop: str = "train") -> list[Event]:
    began = now()
    return [
        StepEnded(
            loop, i, began + i * 1000, began + i * 1000 + 900, 0, 0, 0, 0, 0, 8.0, None, False, 1, runs, None
        )
        for i in range(count)
    ]


def created(number: int, proto: bytes) -> ExecutableCreated:
    return ExecutableCreated(number, "f", now(), proto, "", (("argument", 1),), 1)


def backend() -> BackendFound:
    return BackendFound("cpu", ((0, "nothing known", "0"),), 0, 1, "0.10.2", "0.10.2", now())


def test_steps_arrive_and_the_agents_own_cost_is_in_plain_sight(start_agent: Start) -> None:
    agent = start_agent()
    agent.send([backend(), *steps(500)])
    document = agent.snapshot()
    assert document["loops"]["train"]["steps"] == 500
    assert unexplained(document) == []
    assert document["agent"]["cpu_seconds"]["agent"] > 0.01
    assert 1e7 < document["agent"]["resident_bytes"] < 1e9
    text = agent.metrics_when('jaxobs_steps_total{loop="train"} 500.0')
    lines = [line.rpartition(" ") for line in text.splitlines() if line[0] != "#"]
    values = {name: float(value) for name, _, value in lines}
    assert values['jaxobs_agent_cpu_seconds_total{where="agent"}'] > 0.01
    assert values["jaxobs_agent_resident_bytes"] > 1e7
    assert values['jaxobs_source_up{source="prometheus"}'] == 1.0


def test_two_jobs_that_one_user_starts_by_hand_are_two_runs_by_their_coordinators() -> None:
    def run_id(coordinator: str, processes: int = 2) -> str:
        with service_in_process() as (service, _):
            service._run_ids = "own", "shared"
            found = backend()._replace(process_count=processes, coordinator=coordinator)
            service._fold(iter([found]))
            return service.resource["jaxobs.run_id"]

    assert (run_id(""), run_id("node1:1234", 1)) == ("shared", "own")
    assert run_id("node1:1234") == run_id("node1:1234")
    assert len({"shared", run_id("node1:1234"), run_id("node1:1235")}) == 3


def test_times_are_those_of_the_wall_clock_after_the_machine_was_suspended(
    start_agent: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monotonic clock stood still since the job read both."""
    read = ClockAnchor(now(), wall_now() - 8 * 3_600 * NANOSECONDS)
    monkeypatch.setattr(ClockAnchor, "read", lambda: read)
    agent = start_agent()
    agent.send(steps(2))
    text = agent.metrics_when('jaxobs_steps_total{loop="train"} 2.0')
    (ended,) = re.findall(r'^jaxobs_last_step_timestamp_seconds{loop="train"} (\S+)$', text, re.MULTILINE)
    assert float(ended) == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize(
    ("launcher", "in_jax", "shown"),
    [
        ({}, (0, 1), (0, 1)),
        ((3, 8), (0, 1), (3, 8)),
        ((3, 8), (1, 2), (1, 2)),
        ((0, 1), (0, 1), (0, 1)),
        ((3,), (0, 1), (3, None)),
        ((3,), (1, 2), (1, 2)),
    ],
)
def test_the_rank_is_jaxs_and_where_jax_knows_of_itself_alone_the_launchers(
    start_agent: Start, launcher: Any, in_jax: tuple[int, int], shown: tuple[int, int | None]
) -> None:
    names = ("jax.process_index", "jax.process_count")
    agent = start_agent(resource=dict(zip(names, map(str, launcher), strict=False)))
    agent.send([backend()._replace(process_index=in_jax[0], process_count=in_jax[1]), *steps(3)])
    process = agent.snapshot()["process"]
    assert (process["process_index"], process["process_count"]) == shown
    text = agent.metrics_when('jaxobs_steps_total{loop="train"} 3.0')
    assert f'rank="{shown[0]}"' in next(line for line in text.splitlines() if "jaxobs_run_info{" in line)


@pytest.mark.parametrize("proto", [b"", b"\xff" * 100, b"not a module at all", b"\x0a\xff\xff\xff\xff\x0f"])
def test_a_corrupted_module_has_no_cost_and_the_reason_is_shown(start_agent: Start, proto: bytes) -> None:
    agent = start_agent()
    agent.send([backend(), created(1, proto), FunctionWatched(-1, "f", "x", now()), *steps(3)])
    document = agent.snapshot_when(lambda found: found["executables"][0]["executable"] is not None)
    (executable,) = document["executables"]
    assert executable["cost"] is None
    assert executable["cost_reason"].startswith(
        ("its module could not be read", "its cost could not be derived")
    )
    assert executable["runs"] == 3
    assert document["loops"]["train"]["mfu"] is None
    assert unexplained(document) == []


def test_events_that_nobody_could_have_meant_do_not_end_the_agent(start_agent: Start) -> None:
    agent = start_agent()
    agent.send([Measured("jaxobs_steps_total", (5,), 1.0, now()), Measured("x", [], 2.0, None)])  # type: ignore[arg-type]  # on purpose
    agent.send(steps(2))
    document = agent.snapshot()
    assert document["loops"]["train"]["steps"] == 2
    assert document["agent"]["events_refused"] == 2


def test_at_the_end_of_the_pipe_the_port_is_closed_and_the_process_gone(start_agent: Start) -> None:
    """As when the job is killed: nobody says a word."""
    agent = start_agent()
    agent.send(steps(2))
    where = urlsplit(agent.address())
    process = psutil.Process(agent.snapshot()["agent"]["pid"])
    agent.pipe.close()
    began = time.monotonic()
    while time.monotonic() - began < 20.0:
        try:
            socket.create_connection((str(where.hostname), where.port or 0), timeout=1).close()
        except OSError:
            break
        time.sleep(0.02)
    assert time.monotonic() - began < 8.0
    psutil.wait_procs([process], timeout=20.0)
    assert not process.is_running()


@pytest.mark.parametrize("ending", ["ended", "crashed", None])
def test_a_job_that_said_how_it_ends_was_not_killed(
    start_agent: Start, tmp_path: Path, ending: str | None
) -> None:
    """On a busy machine it had no time for more, and was listed as killed."""
    agent = start_agent(run_folder=str(tmp_path / "run"), run_directory=tmp_path)
    agent.send([backend(), *steps(2)])
    process = psutil.Process(agent.snapshot()["agent"]["pid"])
    if ending is not None:
        agent.pipe.sendall(wire.frame(wire.ENDING, ending))
    agent.pipe.close()
    psutil.wait_procs([process], timeout=20.0)
    record = decoded((tmp_path / "run" / RECORD).read_bytes(), "run")
    assert record.content["state"] == (ending or "killed")


def test_asked_to_finish_it_flushes_and_ends_well_before_its_deadline(start_agent: Start) -> None:
    agent = start_agent()
    agent.send(steps(2))
    agent.address()
    assert agent.finish(20.0) < 10.0


def test_however_seldom_it_makes_snapshots_it_ends_when_it_is_asked_to(start_agent: Start) -> None:
    agent = start_agent(interval=30.0)
    agent.send(steps(2))
    agent.address()
    time.sleep(0.5)  # its first turn is over, and the next far away
    assert agent.finish(25.0) < 12.0


def test_ten_thousand_series_do_not_keep_the_agent_from_receiving(start_agent: Start) -> None:
    agent = start_agent(series_limit=12_000)
    labels = [
        Measured("jaxobs_persistent_cache_requests_total", (f"o{i}",), 1.0, now()) for i in range(10_000)
    ]
    agent.send(labels)
    agent.snapshot()
    began = time.monotonic()
    for _ in range(10):
        agent.send(steps(1_000))
        agent.snapshot()
    assert (time.monotonic() - began) / 10 < 10.0
    assert agent.snapshot()["loops"]["train"]["steps"] == 10_000


def test_a_module_is_read_without_rest_while_somebody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "MAX_REST_SECONDS", 30.0)  # one would fail the test
    monkeypatch.setattr(analysis, "perf_counter", iter(range(0, 10**6, 100)).__next__)
    worker = Analysis(print, lambda: None)
    modules = compiled_module(8), compiled_module(9)
    for number, module in enumerate(modules):
        worker.submit(number, module)
    began = time.monotonic()
    done = worker.settle(25.0)
    worker.stop()
    assert [one.module is not None for one in done if isinstance(one, ModuleDone)] == [True, True]
    assert time.monotonic() - began < 20.0


def test_from_one_module_to_the_next_is_a_rest_as_long_as_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "perf_counter", iter(range(0, 10**6, 100)).__next__)  # 100 s each
    worker = Analysis(print, lambda: None)
    modules = compiled_module(8), compiled_module(9)
    began = time.monotonic()
    for number, module in enumerate(modules):
        worker.submit(number, module)
    done: list[Any] = []
    while len(done) < 2:
        time.sleep(0.01)
        done += worker.finished()
    worker.stop()
    assert time.monotonic() - began >= analysis.MAX_REST_SECONDS


def test_the_user_has_the_name_that_the_system_knows_where_no_variable_names_one(
    start_agent: Callable[..., AgentProcess],
) -> None:
    """The job does not ask for it: a table on a network may not answer, and its socket would be in the job's children."""
    assert start_agent().snapshot()["process"]["user"] == pwd.getpwuid(os.geteuid()).pw_name
