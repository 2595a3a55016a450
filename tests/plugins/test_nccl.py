"""The collector `nccl` on a server that speaks as NCCL 2.30.7's RAS service does (src/ras/client_support.cc)."""

from __future__ import annotations

import contextlib
import json
import math
import socketserver
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs_plugins.collectors import nccl
from jaxobs_plugins.collectors.nccl import NcclCollector, address_of, read_answer

OWN = 4711
RESOURCE = {"process.pid": str(OWN), "jax.platform": "gpu", "jax.process_index": "0"}


def rank(number: int, operations: int, *, host: str = "10.0.0.1", pid: int | None = None) -> dict[str, Any]:
    return {
        "rank": number, "host": host, "pid": OWN + number if pid is None else pid, "cuda_dev": number, "nvml_dev": number,
        "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
                   "abort_flag": False},
        "collective_counts": {"Broadcast": 0, "AllGather": operations // 2, "AllReduce": operations - operations // 2},
    }  # fmt: skip


def missing(number: int, host: str = "10.0.0.2") -> dict[str, Any]:
    return {
        "rank": number, "host": host, "pid": OWN + number, "cuda_dev": 0, "nvml_dev": 0,
        "status": {"unresponsive": True, "considered_dead": False},
    }  # fmt: skip


def communicator(name: str, ranks: list[dict[str, Any]], gone: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "hash": name, "secondary_hash": "0x1:0x2", "size": len(ranks) + len(gone), "ranks_count": len(ranks),
        "missing_ranks_count": len(gone), "ranks": ranks, "missing_ranks": gone,
    }  # fmt: skip


def answer(*communicators: dict[str, Any]) -> str:
    return json.dumps(
        {"nccl_version": "2.30.7", "communicators_count": len(communicators), "communicators": communicators,
         "ras": {"collection_time_sec": 0.012, "timeouts_count": 0}}, indent=2,
    )  # fmt: skip


class Service(socketserver.ThreadingTCPServer):
    """Answers each client as the RAS thread of a process does, with what `told` is then."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("localhost", 0), Conversation)
        self.told = ""
        self.knows_json = True
        self.asked: list[str] = []


class Conversation(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        service: Any = self.server
        for line in self.rfile:
            command = line.decode().strip()
            service.asked.append(command)
            if command.startswith("CLIENT PROTOCOL "):
                self.wfile.write(b"SERVER PROTOCOL 2\n")
            elif command.startswith("TIMEOUT ") or (command == "SET FORMAT json" and service.knows_json):
                self.wfile.write(b"OK\n")
            elif command == "STATUS":
                self.wfile.write(service.told.encode())
                return  # the service closes after its answer
            else:
                self.wfile.write(f"ERROR: Unknown command {command}\n".encode())


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with Service() as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("NCCL_RAS_ADDR", f"localhost:{serving.server_address[1]}")
        yield serving
        serving.shutdown()
        thread.join()


def started(**resource: str) -> NcclCollector:
    collector = NcclCollector()
    agent: Any = SimpleNamespace(resource=RESOURCE | resource)
    collector.start(agent)
    return collector


def series(collector: NcclCollector) -> dict[tuple[str, ...], float]:
    """What it emits, by name and labels; a gauge that is withdrawn is NaN."""
    return {
        (value.metric.removeprefix("jaxobs_nccl_"), *value.labels): value.value
        for value in collector.collect()
    }


def test_the_rank_that_has_begun_fewer_collectives_is_named_with_its_host_and_process(
    service: Service,
) -> None:
    service.told = answer(communicator("0xa", [rank(0, 100), rank(1, 97, host="10.0.0.2"), rank(2, 100)], []))
    collector = started()
    assert series(collector) == {
        ("ranks", "0xa"): 3.0, ("missing_ranks", "0xa"): 0.0, ("operations_total", "0xa"): 0.0,
        ("operations_behind", "0xa", "1", "10.0.0.2", str(OWN + 1)): 3.0,
    }  # fmt: skip
    assert collector.reason == ""
    assert service.asked == ["CLIENT PROTOCOL 2", "TIMEOUT 3", "SET FORMAT json", "STATUS"]
    service.told = answer(communicator("0xa", [rank(0, 120), rank(1, 120), rank(2, 120)], []))
    found = series(collector)
    assert found["operations_total", "0xa"] == 20.0
    assert math.isnan(found["operations_behind", "0xa", "1", "10.0.0.2", str(OWN + 1)])  # it has caught up


def test_a_rank_is_missing_once_two_answers_in_a_row_say_so(service: Service) -> None:
    service.told = answer(communicator("0xa", [rank(0, 5)], [missing(1)]))
    collector = started()
    assert series(collector)["missing_ranks", "0xa"] == 0.0
    found = series(collector)
    assert found["missing_ranks", "0xa"] == 1.0
    assert found["missing_info", "0xa", "1", "10.0.0.2", str(OWN + 1)] == 1.0
    service.told = answer(communicator("0xa", [rank(0, 5), rank(1, 5)], []))
    found = series(collector)
    assert found["missing_ranks", "0xa"] == 0.0
    assert math.isnan(found["missing_info", "0xa", "1", "10.0.0.2", str(OWN + 1)])


def test_where_nccl_counts_no_operation_nobody_is_behind(service: Service) -> None:
    service.told = answer(communicator("0xa", [rank(0, 0), rank(1, 0)], []))
    assert series(started()) == {("ranks", "0xa"): 2.0, ("missing_ranks", "0xa"): 0.0}


def test_of_many_communicators_the_largest_are_shown_and_of_many_members_those_furthest_behind(
    service: Service,
) -> None:
    large = communicator("0xall", [rank(number, 1000 - number) for number in range(512)], [])
    service.told = answer(*(communicator(f"0x{n}", [rank(0, 3)], []) for n in range(40)), large)
    found = series(started())
    assert len([key for key in found if key[0] == "ranks"]) == nccl.MAX_COMMUNICATORS
    assert found["ranks", "0xall"] == 512.0
    behind = {key[2]: value for key, value in found.items() if key[0] == "operations_behind"}
    assert behind == {str(number): float(number) for number in range(504, 512)}


def refused(service: Service) -> None:
    service.knows_json = False


def cut(service: Service) -> None:
    service.told = answer(communicator("0xa", [rank(number, 9) for number in range(512)], []))[: 2**17]


def of_another_job(service: Service) -> None:
    service.told = answer(communicator("0xa", [rank(0, 9, pid=1), rank(1, 9, pid=2)], []))


def too_early(service: Service) -> None:
    service.told = answer()


@pytest.mark.parametrize(
    ("happens", "reason"),
    [(refused, "Unknown command SET FORMAT json"), (cut, "is cut or no JSON"), (of_another_job, "another job answered"),
     (too_early, "no communicator yet")],
    ids=["too old for JSON", "cut", "another job's", "before the first collective"],
)  # fmt: skip
def test_what_cannot_be_known_is_absent_with_its_reason(service: Service, happens: Any, reason: str) -> None:
    service.told = answer(communicator("0xa", [rank(0, 9), rank(1, 8)], []))
    collector = started()
    assert series(collector)["ranks", "0xa"] == 2.0
    happens(service)
    assert all(math.isnan(value) for value in series(collector).values())
    assert reason in collector.reason


@pytest.mark.parametrize(
    ("resource", "reason"),
    [({"jax.platform": "cpu"}, "no NVIDIA GPU"), ({"jax.process_index": "3"}, "the first process")],
)
def test_nobody_is_asked_where_there_is_no_nccl_or_another_rank_asks(
    service: Service, resource: dict[str, str], reason: str
) -> None:
    collector = started(**resource)
    assert series(collector) == {}
    assert reason in collector.reason
    assert service.asked == []


def test_a_job_without_the_service_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with Service() as serving:
        port = serving.server_address[1]
    monkeypatch.setenv("NCCL_RAS_ADDR", f"localhost:{port}")
    collector = started()
    assert series(collector) == {}
    assert "refused" in collector.reason.lower()


@pytest.mark.parametrize(
    ("text", "address"),
    [("localhost:28028", ("localhost", 28028)), ("[::1]:9", ("::1", 9)), (":7", ("localhost", 7))],
)
def test_the_address_is_read_as_nccl_reads_it(text: str, address: tuple[str, int]) -> None:
    assert address_of(text) == address


KEYS = ["communicators", "ranks", "missing_ranks", "hash", "size", "rank", "collective_counts"]


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
))  # fmt: skip
def test_an_answer_of_any_shape_is_read_or_refused_in_words(told: Any) -> None:
    with contextlib.suppress(ValueError):
        read_answer(json.dumps(told))
