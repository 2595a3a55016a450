"""Profiler windows in a real agent process: read beside modules, and refused where they are no trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jaxobs.agent import analysis
from jaxobs.agent.analysis import Analysis, ModuleDone, WindowDone
from jaxobs.derive.profiler_windows.windows import WindowToRead
from jaxobs.flow import wire
from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.events import BackendFound, Event, ProfileWindow, StepEnded
from jaxobs.trace import read_trace
from jaxobs.trace.planes import HOSTNAMES, PLANES, Plane, parts_of
from tests.agent.beside import AgentProcess
from tests.derive.made_up import PEAKS, unexplained
from tests.trace.written import field

Start = Callable[..., AgentProcess]
TRACE = (Path(__file__).parents[1] / "trace" / "data" / "mi300x_8gpu_conv3d.xplane.pb").read_bytes()


def send(agent: AgentProcess, events: Sequence[Event]) -> None:
    told, pieces = wire.payloads_apart(events)
    agent.pipe.sendall(b"".join(pieces))
    agent.send(told)


def window(xspace: bytes, start: int) -> ProfileWindow:
    return ProfileWindow("scheduled", "read", start, start + 60 * NANOSECONDS, 10**6, xspace, "", "")


def step(start: int) -> StepEnded:
    return StepEnded(
        "train", 0, start, start + 61 * NANOSECONDS, 0, 0, 0, 0, 0, None, None, False, 1, (), None
    )


def test_an_agent_reads_a_window_and_shows_its_operations(start_agent: Start) -> None:
    agent = start_agent()
    start = now() - 100 * NANOSECONDS
    backend = BackendFound("gpu", ((0, "AMD Instinct MI300X", "0"),), 0, 1, "0.10.2", "0.10.2", start)
    send(agent, [backend, step(start - NANOSECONDS // 2), window(TRACE, start)])
    document = agent.snapshot_when(lambda document: document["operations"])
    assert unexplained(document) == []
    row = next(row for row in document["operations"] if row["operation"] == "input_transpose_fusion")
    assert (row["bottleneck"], row["executions"]) == ("memory", 40)
    assert document["loops"]["train"]["profile"]["windows"] == 1
    assert 'jaxobs_profile_windows_total{outcome="read"} 1.0' in agent.metrics_when("jaxobs_operation_info{")


def test_what_is_no_trace_is_unreadable_and_said_once(start_agent: Start) -> None:
    agent = start_agent()
    start = now() - 100 * NANOSECONDS
    send(
        agent,
        [step(start - NANOSECONDS // 2), window(b"no trace at all", start), window(TRACE[:5000], start)],
    )
    agent.metrics_when('jaxobs_profile_windows_total{outcome="unreadable"} 2.0')
    assert agent.snapshot()["loops"]["train"]["profile"] is None
    assert any("profiler window could not be read" in line for line in agent.logs)


def module_of_the_trace() -> bytes:
    """That of the operations on its devices; each host has its own numbers of modules."""
    trace = read_trace(TRACE)
    proto = trace.module(trace.devices[0].host, trace.devices[0].modules[0].program_id)
    assert proto is not None
    return proto


def settled(worker: Analysis, count: int) -> list[ModuleDone | WindowDone]:
    done: list[ModuleDone | WindowDone] = []
    deadline = time.monotonic() + 20
    while len(done) < count and time.monotonic() < deadline:
        done += worker.settle(0.2)
    return done


@pytest.fixture
def worker() -> Analysis:
    return Analysis(print, lambda: None)


def test_a_program_that_is_compiled_again_has_the_same_cost_and_takes_no_room_of_its_own(
    worker: Analysis,
) -> None:
    proto = module_of_the_trace()
    for number in range(1, 100):
        worker.submit(number, proto + b"\x28" + bytes([number]))  # HloModuleProto.id, the program's number
    done = settled(worker, 99)
    worker.stop()
    costs = {id(one.module) for one in done if isinstance(one, ModuleDone) and one.module is not None}
    assert (len(done), len(costs)) == (99, 1)


def test_modules_and_windows_are_read_in_order_and_each_module_is_decoded_once(worker: Analysis) -> None:
    proto = module_of_the_trace()
    worker.submit(7, proto)
    worker.submit(8, proto)
    for _ in range(2):
        worker.submit_window(WindowToRead(window(TRACE, 0), {}, PEAKS, {}))
    first, second, *windows = settled(worker, 4)
    worker.stop()
    assert isinstance(first, ModuleDone)
    assert isinstance(second, ModuleDone)
    assert (first.number, second.number) == (7, 8)
    assert first.module is second.module is not None
    decoded: dict[int, Any] = {}
    for read in windows:
        assert isinstance(read, WindowDone)
        assert read.profiled is not None
        assert read.window.event.xspace is None  # its megabytes are let go
        decoded |= {id(ran.cost): ran.cost for ran in read.profiled.modules.values()}
    ((_, cost),) = (
        decoded.items()
    )  # once more for its buffers, which the compile did not give, and not for each window
    assert cost is not None
    assert (cost.cost, cost.memory_reason) == (first.module.cost, "")


def without_modules(trace: bytes) -> bytes:
    """The same without its metadata plane, as later windows of a job are."""
    space = parts_of(memoryview(trace), "a trace")
    kept = [part for part in space[PLANES] if Plane(part).name != "/host:metadata"]
    assert len(kept) == len(space[PLANES]) - 1
    return bytes(b"".join(field(1, bytes(part)) for part in kept) + field(4, bytes(space[HOSTNAMES][0])))


def test_modules_of_earlier_windows_are_remembered(worker: Analysis) -> None:
    for trace in (without_modules(TRACE), TRACE, without_modules(TRACE)):
        worker.submit_window(WindowToRead(window(trace, 0), {}, PEAKS, {}))
    before, full, after = settled(worker, 3)
    worker.stop()
    found = []
    for read in (before, full, after):
        assert isinstance(read, WindowDone)
        assert read.profiled is not None
        found.append(
            {name: (one.label, one.executions) for (*_, name), one in read.profiled.operations.items()}
        )
    assert found[0] != found[1] == found[2]


def test_a_trace_beyond_the_limit_is_refused_and_old_modules_are_let_go(
    worker: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "LARGEST_TRACE", len(TRACE) - 1)
    monkeypatch.setattr(analysis, "OPERATIONS_KEPT", 1)
    proto = module_of_the_trace()
    for number, content in enumerate((proto, b"not a module", proto)):
        worker.submit(number, content)
    worker.submit_window(WindowToRead(window(TRACE, 0), {}, PEAKS, {}))
    first, broken, again, read = settled(worker, 4)
    worker.stop()
    assert isinstance(broken, ModuleDone)
    assert "could not be read" in broken.reason
    assert isinstance(first, ModuleDone)
    assert isinstance(again, ModuleDone)
    assert first.module is not again.module
    assert first.module == again.module
    assert isinstance(read, WindowDone)
    assert "more than the limit" in read.reason


def test_what_waits_beyond_the_limit_is_refused_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(analysis, "load_rules", lambda _: go_on.wait(20) and {})  # the first it does
    worker = Analysis(print, lambda: None)
    proto = module_of_the_trace()
    monkeypatch.setattr(analysis, "MODULES_WAITING", 2 * len(proto))
    for number in range(4):
        worker.submit(number, proto)
    worker.submit_window(WindowToRead(window(TRACE, 0), {}, PEAKS, {}))
    refused = worker.finished()
    assert [(type(done), done.reason[:20]) for done in refused] == [
        (ModuleDone, "the agent is behind:"),
        (ModuleDone, "the agent is behind:"),
        (WindowDone, "the agent is behind:"),
    ]
    go_on.set()
    assert [done.module is not None for done in settled(worker, 2) if isinstance(done, ModuleDone)] == [
        True
    ] * 2
    worker.submit(5, proto)  # there is room again
    (later,) = settled(worker, 1)
    worker.stop()
    assert isinstance(later, ModuleDone)
    assert later.module is not None
