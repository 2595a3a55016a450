import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxobs.model.addresses import AddressError
from jaxobs.model.metrics import Exemplar, Family, HistogramValue, Metric
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.base import Exporter
from jaxobs.plugin.protocol import Batch
from jaxobs.vocabulary.text import clean_label
from jaxobs_plugins.prometheus.exporter import PrometheusExporter
from tests.prometheus_server import EXEMPLARS, PrometheusServer
from tests.waiting import wait_for

PORT = "OTEL_EXPORTER_PROMETHEUS_PORT"


@pytest.fixture(autouse=True)
def any_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PORT, "0")
    for name in ("OTEL_EXPORTER_PROMETHEUS_HOST", "OTEL_METRICS_EXPORTER"):
        monkeypatch.delenv(name, raising=False)


def batch(*families: Family) -> Batch:
    return Batch(SnapshotData(0, {}, families), (), ())


def steps(count: float) -> Family:
    return Family(Metric("jaxobs_steps_total", "counter", "Steps.", ("loop",)), {("train",): count})


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=5) as response:
        return str(response.read(), "utf-8")


def test_each_scrape_shows_the_last_snapshot(make_agent: Callable) -> None:
    agent = make_agent()
    exporter: Exporter = PrometheusExporter()
    exporter.start(agent)
    try:
        [address] = agent.addresses
        assert address.startswith("http://localhost:")
        assert address.endswith("/metrics")
        assert 'target_info{host_name="node1"' in get(address)
        for count in (1.0, 2.0):
            exporter.export(batch(steps(count)))
            assert f'jaxobs_steps_total{{loop="train"}} {count}\n' in get(address)
        agent.resource["jax.process_index"] = "3"  # a backend has been found
        exporter.export(batch())
        assert 'jax_process_index="3"' in get(address)
    finally:
        exporter.stop(5)
    with pytest.raises(OSError, match="refused"):
        get(address)
    exporter.stop(5)
    assert agent.lines == []


def test_switched_off_it_listens_nowhere(make_agent: Callable) -> None:
    agent = make_agent(prometheus=False)
    exporter = PrometheusExporter()
    exporter.start(agent)
    assert not exporter.takes_batches
    exporter.stop(1)
    assert agent.addresses == []


def test_stop_without_start() -> None:
    PrometheusExporter().stop(1)


def test_ranks_of_one_host_serve_side_by_side(make_agent: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv(PORT, str(port))
        agents = [make_agent(rank_on_host=rank) for rank in (0, 1, 1)]
        exporters = [PrometheusExporter() for _ in agents]
        for agent, exporter in zip(agents, exporters, strict=True):
            exporter.start(agent)
            exporter.export(batch(steps(1)))
        addresses = [agent.addresses[0] for agent in agents]
        assert len({*addresses, f"http://localhost:{port}/metrics"}) == 4
        assert all("jaxobs_steps_total" in get(address) for address in addresses)
        for exporter in exporters:
            exporter.stop(5)


def test_in_kubernetes_a_taken_port_fails_the_exporter(
    make_agent: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv(PORT, str(other.getsockname()[1]))
        agent = make_agent(in_kubernetes=True)
        with pytest.raises(AddressError, match="Kubernetes"):
            PrometheusExporter().start(agent)
        assert agent.addresses == []


def test_a_bad_port_fails_the_exporter(make_agent: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PORT, "none")
    with pytest.raises(AddressError, match="'none' is not a port"):
        PrometheusExporter().start(make_agent())


def test_the_target_file_lives_as_long_as_the_port(make_agent: Callable, tmp_path: Path) -> None:
    agent = make_agent(file_sd_directory=str(tmp_path))
    exporter = PrometheusExporter()
    exporter.start(agent)
    path = wait_for(lambda: next(tmp_path.glob("[!.]*.json"), None), "the target file")
    [group] = json.loads(path.read_text())
    assert f"http://{group['targets'][0]}/metrics" == agent.addresses[0]
    path.unlink()

    def exported_again() -> bool:
        exporter.export(batch())
        return path.exists()

    wait_for(exported_again, "the target file, once more")
    exporter.stop(5)
    assert list(tmp_path.iterdir()) == []


def test_a_target_at_every_address_is_named_by_its_host(
    make_agent: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_HOST", "0.0.0.0")
    agent = make_agent(file_sd_directory=str(tmp_path))
    exporter = PrometheusExporter()
    exporter.start(agent)
    path = wait_for(lambda: next(tmp_path.glob("jaxobs-*.json"), None), "the target file")
    assert json.loads(path.read_text())[0]["targets"][0].startswith("node1:")
    assert agent.addresses[0].startswith("http://localhost:")
    exporter.stop(5)


def test_where_the_target_file_cannot_be_written_metrics_are_served_all_the_same(
    make_agent: Callable, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    agent = make_agent(file_sd_directory=str(tmp_path / "file"))
    exporter = PrometheusExporter()
    exporter.start(agent)
    exporter.export(batch(steps(1)))
    assert "jaxobs_steps_total" in get(agent.addresses[0])
    wait_for(lambda: agent.lines, "a line")
    exporter.stop(5)
    assert all(line.startswith("file_sd: ") and "\n" not in line for line in agent.lines)


def test_a_real_prometheus_finds_and_scrapes_it(
    make_agent: Callable, families: tuple[Family, ...], tmp_path: Path, prometheus_server_binary: Path
) -> None:
    """Through the target file; with exemplars, hostile labels and target_info that joins."""
    hostile = 'a\x00b\n"\\\udcff{}\u2028' + "x" * 1000
    strange = Family(
        Metric("example_strange", "gauge", "Strange.", ("name",)), {(clean_label(hostile),): 7.0}
    )
    agent = make_agent(file_sd_directory=str(tmp_path / "targets"))
    exporter = PrometheusExporter()
    exporter.start(agent)
    now = time.time()
    waits = Metric("example_wait_seconds", "histogram", "Waits.", (), "seconds", (1.0,))
    observed = HistogramValue((1, 0), 0.5, (Exemplar("ab", "cd", 0.5, now), None))
    exporter.export(batch(*families, strange, Family(waits, {(): observed})))
    configuration = {
        "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"},
        "scrape_configs": [
            {
                "job_name": "training",
                "honor_labels": True,
                "file_sd_configs": [{"files": [str(tmp_path / "targets" / "*.json")]}],
            }
        ],
    }
    server = PrometheusServer(prometheus_server_binary, tmp_path, json.dumps(configuration), EXEMPLARS)
    try:
        wait_for(lambda: server.query("jaxobs_steps_total"), "the first scrape")
        assert server.value("up") == 1
        assert server.value('jaxobs_steps_total{loop="train", jaxobs_run="first"}') == 12
        assert (
            server.value('jaxobs_steps_total{loop="eval"} * on(instance) group_left(jaxobs_run) target_info')
            == 0
        )
        assert server.value("jaxobs_step_seconds_count") == 6
        assert server.value("example_strange") == 7
        [joined] = server.query("target_info")
        assert (joined["metric"]["jaxobs_run"], joined["metric"]["host_name"]) == ("first", "node1")
        assert "exported_jaxobs_run" not in joined["metric"]
        window = {"start": str(now - 60), "end": str(now + 60)}
        [found] = server.get("query_exemplars", query="example_wait_seconds_bucket", **window)
        assert found["exemplars"][0]["labels"] == {"trace_id": "ab", "span_id": "cd"}
        metadata = server.get("targets/metadata", metric="jaxobs_step_seconds")
        assert metadata[0]["unit"] == "seconds"
    finally:
        server.close()
        exporter.stop(5)


def test_who_asks_for_another_process_than_this_gets_nothing_of_it(make_agent: Callable) -> None:
    """Prometheus, until it has heard that the run before this one on the port is over."""
    agent = make_agent()
    agent.resource["service.instance.id"] = "this"
    exporter = PrometheusExporter()
    exporter.start(agent)
    exporter.export(batch(steps(1)))
    assert "jaxobs_steps_total" in get(f"{agent.addresses[0]}?instance=this")
    with pytest.raises(urllib.error.HTTPError, match="410"):
        get(f"{agent.addresses[0]}?instance=the-one-before")
    exporter.stop(5)
