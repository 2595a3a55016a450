"""A page of metrics beside prometheus_client's own: `make benchmark NAME=scrape`.

A whole GET of the same series from both: counters and gauges with two labels. *Again* is the same snapshot once more,
which jaxobs keeps as rendered. jaxobs renders in the agent; prometheus_client in the job, under its interpreter lock.
"""

from __future__ import annotations

import contextlib
import http.client
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import prometheus_client

from benchmarks.paired import median, paired_ratio, take_turns
from benchmarks.truths import Rows, interval
from jaxobs.model.addresses import Address
from jaxobs.model.metrics import Family, Metric
from jaxobs.model.snapshot import SnapshotData
from jaxobs_plugins.prometheus.access import AllowedHosts
from jaxobs_plugins.prometheus.address import listen
from jaxobs_plugins.prometheus.pages import METRICS_PATH, Pages, answer
from jaxobs_plugins.prometheus.server import HttpServer

SERIES = (1_000, 10_000)
ROUNDS = 21
RESOURCE = {"service.name": "benchmark", "host.name": "localhost", "process.pid": "1"}
HOSTS = AllowedHosts((), from_network=False)


def labels_of(series: int) -> list[tuple[str, str]]:
    """For each counter, and each gauge: as those of executables."""
    return [(f"train_step_{index}", f"{index:012x}") for index in range(series // 2)]


def example_families(series: int) -> tuple[Family, ...]:
    """A snapshot: as many counters as gauges."""
    names, labels = ("function", "executable"), labels_of(series)
    seconds = Metric("jaxobs_executable_seconds_total", "counter", "Device time.", names, "seconds")
    flops = Metric("jaxobs_executable_flops", "gauge", "FLOPs of one run.", names, "flops")
    return (
        Family(seconds, {key: 0.123456789 * index for index, key in enumerate(labels)}),
        Family(flops, {key: 1e9 + index for index, key in enumerate(labels)}),
    )


def example_registry(series: int) -> prometheus_client.CollectorRegistry:
    """The same as metrics of prometheus_client."""
    prometheus_client.disable_created_metrics()
    registry = prometheus_client.CollectorRegistry()
    names = ["function", "executable"]
    seconds = prometheus_client.Counter("jaxobs_executable_seconds", "Device time.", names, registry=registry)
    flops = prometheus_client.Gauge("jaxobs_executable_flops", "FLOPs of one run.", names, registry=registry)
    for index, key in enumerate(labels_of(series)):
        seconds.labels(*key).inc(0.123456789 * index)
        flops.labels(*key).set(1e9 + index)
    return registry


def measure() -> Rows:
    """Each size, plain and compressed."""
    for series in SERIES:
        with scraping(example_families(series), example_registry(series)) as scrapes:
            for encoding in ("identity", "gzip"):
                scrapes["kept"](encoding)  # so that it is kept
                found = take_turns({name: partial(one, encoding) for name, one in scrapes.items()}, ROUNDS)
                ours, its, kept = found["ours"], found["theirs"], found["kept"]
                yield (
                    f"{series} series, {encoding}",
                    [
                        interval("jaxobs", median(ours), "s"),
                        interval("prometheus_client", median(its), "s"),
                        interval("jaxobs / it", paired_ratio(ours, its)),
                        interval("jaxobs, again", median(kept), "s"),
                        interval("control", paired_ratio(found["another"], ours)),
                    ],
                )


@contextlib.contextmanager
def scraping(families: tuple[Family, ...], registry: Any) -> Iterator[dict[str, Callable[[str], float]]]:
    """Both servers, and the seconds of a GET from each."""
    pages, snapshot = Pages(RESOURCE), SnapshotData(0, {}, families)
    pages.show(snapshot)
    theirs, thread = prometheus_client.start_http_server(0, "127.0.0.1", registry)
    listener, address = listen(Address("localhost", 0), may_move=True)
    server = HttpServer(listener, lambda request: answer(request, pages, HOSTS), print)
    server.start()

    def of_new_snapshot(encoding: str) -> float:
        pages.show(snapshot)
        return get(address.port, encoding)

    try:
        yield {
            "ours": of_new_snapshot,
            "another": of_new_snapshot,
            "kept": partial(get, address.port),
            "theirs": partial(get, theirs.server_port),
        }
    finally:
        server.stop(5)
        theirs.shutdown()
        thread.join()


def get(port: int, encoding: str) -> float:
    """Seconds that a GET takes."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    began = time.perf_counter()
    client.request("GET", METRICS_PATH, headers={"Accept": "text/plain", "Accept-Encoding": encoding})
    client.getresponse().read()
    took = time.perf_counter() - began
    client.close()
    return took
