"""A page of metrics beside prometheus_client's own: `make benchmark NAME=scrape`."""

from __future__ import annotations

import contextlib
import http.client
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import prometheus_client
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from benchmarks.costs.sections import Cell, Section, Table, middle, ratio
from benchmarks.paired import seconds_of, take_turns
from jaxobs.model.addresses import Address
from jaxobs.model.metrics import Exemplar, Family, HistogramValue, Metric
from jaxobs.model.snapshot import SnapshotData
from jaxobs_plugins.prometheus.access import AllowedHosts, LocalNames
from jaxobs_plugins.prometheus.address import listen
from jaxobs_plugins.prometheus.pages import Pages, answer
from jaxobs_plugins.prometheus.render import OPENMETRICS, TEXT, render
from jaxobs_plugins.prometheus.server import HttpServer, Request, Response

SERIES = (1_000, 10_000)
ROUNDS = 21
RESOURCE = {"service.name": "benchmark", "host.name": "localhost", "process.pid": "1"}
STEP_BUCKETS = tuple(1e-4 * 1.6**index for index in range(33))  # 100 µs to 5 min
ACCEPTED = {TEXT: "text/plain", OPENMETRICS: "application/openmetrics-text;version=1.0.0"}
HOSTS = AllowedHosts(LocalNames(), (), from_network=False)
FORMATS: tuple[tuple[str, str, Callable[[Any], bytes]], ...] = (
    (TEXT, "text", prometheus_client.generate_latest),
    (OPENMETRICS, "OpenMetrics", generate_openmetrics),
)

_TEXT = f"""The same series, once as a snapshot of jaxobs and once as live metrics of prometheus_client (`_created`
series switched off, as jaxobs has none): a tenth of them histograms with exemplars, the rest counters and gauges with
two labels. *Rendered* is `render()` beside `generate_latest(registry)`; jaxobs uses the latter for the text itself,
so the difference is what making the families costs. *Scraped* is a whole GET from a client on this machine, of a
snapshot that nobody asked for before, beside `start_http_server()`; *again* is the same snapshot once more, which
jaxobs keeps as rendered and prometheus_client renders anew. {ROUNDS} rounds. jaxobs renders in the agent;
prometheus_client in the job, under its interpreter lock."""


def histograms(series: int) -> int:
    """So many that their buckets, counts and sums are about a tenth of the series."""
    return series // 360


def labels_of_rest(series: int) -> list[tuple[str, str]]:
    """For each counter, and each gauge."""
    rest = series - histograms(series) * (len(STEP_BUCKETS) + 3)
    return [(f"train_step_{index}", f"{index:012x}") for index in range(rest // 2)]


def example_families(series: int) -> tuple[Family, ...]:
    """A snapshot: histograms, and as many counters as gauges, with labels as those of executables."""
    exemplar = Exemplar("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 0.02, 1.7e9)
    buckets = len(STEP_BUCKETS) + 1
    metric = Metric(
        "jaxobs_step_seconds", "histogram", "Spacing of completions.", ("loop",), "seconds", STEP_BUCKETS
    )
    values: dict[tuple[str, ...], HistogramValue] = {
        (f"loop{i}",): HistogramValue((1,) * buckets, 1.5 * i, (exemplar,) * buckets)
        for i in range(histograms(series))
    }
    names, labels = ("function", "executable"), labels_of_rest(series)
    seconds = Metric("jaxobs_executable_seconds_total", "counter", "Device time.", names, "seconds")
    flops = Metric("jaxobs_executable_flops", "gauge", "FLOPs of one run.", names, "flops")
    return (
        Family(metric, values),
        Family(seconds, {key: 0.123456789 * index for index, key in enumerate(labels)}),
        Family(flops, {key: 1e9 + index for index, key in enumerate(labels)}),
    )


def example_registry(series: int) -> prometheus_client.CollectorRegistry:
    """The same as metrics of prometheus_client."""
    prometheus_client.disable_created_metrics()
    registry = prometheus_client.CollectorRegistry()
    steps = prometheus_client.Histogram(
        "jaxobs_step_seconds", "Spacing of completions.", ["loop"], buckets=STEP_BUCKETS, registry=registry
    )
    exemplar = {"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"}
    for i in range(histograms(series)):
        for bound in (*STEP_BUCKETS, 1e9):
            steps.labels(f"loop{i}").observe(bound, exemplar)
    names = ["function", "executable"]
    seconds = prometheus_client.Counter("jaxobs_executable_seconds", "Device time.", names, registry=registry)
    flops = prometheus_client.Gauge("jaxobs_executable_flops", "FLOPs of one run.", names, registry=registry)
    for index, key in enumerate(labels_of_rest(series)):
        seconds.labels(*key).inc(0.123456789 * index)
        flops.labels(*key).set(1e9 + index)
    return registry


def lines_of_series(page: bytes) -> int:
    """How many series a page has."""
    return sum(not line.startswith(b"#") for line in page.splitlines())


def measure() -> Section:
    """Each size and format rendered; each size scraped as text, plain and compressed."""
    rendered: list[list[Cell]] = []
    scraped: list[list[Cell]] = []
    for series in SERIES:
        families, registry = example_families(series), example_registry(series)
        for content_type, title, theirs in FORMATS:
            ours, its = partial(render, families, RESOURCE, content_type), partial(theirs, registry)
            count = f"{lines_of_series(ours())} and {lines_of_series(its())}"
            turns = {
                name: partial(seconds_of, run)
                for name, run in (("ours", ours), ("again", ours), ("theirs", its))
            }
            rendered.append([title, count, *_cells(take_turns(turns, ROUNDS))])
        with scraping(families, registry) as scrapes:
            for encoding in ("identity", "gzip"):
                how = f"text, {'plain' if encoding == 'identity' else encoding}"
                scrapes["kept"](encoding)  # so that it is kept
                found = take_turns({name: partial(one, encoding) for name, one in scrapes.items()}, ROUNDS)
                kept = (middle(found["kept"]), ratio(found["kept"], found["theirs"]))
                scraped.append([how, f"{series}", *_cells(found), *kept])
    beside = ("prometheus_client", "jaxobs / it", "control")
    columns = ("format", "series of ours, theirs", "jaxobs", *beside)
    again = ("format", "series", "jaxobs", *beside, "jaxobs, again", "again / it")
    return Section(
        "A scrape", [Table("Rendered", _TEXT, columns, rendered), Table("", "Scraped:", again, scraped)]
    )


def _cells(found: dict[str, list[float]]) -> list[Cell]:
    ours, its = found["ours"], found["theirs"]
    return [middle(ours), middle(its), ratio(ours, its), ratio(found["again"], ours)]


Scrapes = dict[str, Callable[[str], float]]


@contextlib.contextmanager
def scraping(families: tuple[Family, ...], registry: Any) -> Iterator[Scrapes]:
    """Both servers, and the seconds of a GET from each."""
    pages, snapshot = Pages(RESOURCE), SnapshotData(0, {}, families)
    pages.show(snapshot)
    theirs, thread = prometheus_client.start_http_server(0, "127.0.0.1", registry)
    with serving(lambda request: answer(request, pages, HOSTS)) as port:

        def of_new_snapshot(encoding: str) -> float:
            pages.show(snapshot)
            return get(port, encoding)[0]

        try:
            yield {
                "ours": of_new_snapshot,
                "again": of_new_snapshot,
                "kept": lambda encoding: get(port, encoding)[0],
                "theirs": lambda encoding: get(theirs.server_port, encoding)[0],
            }
        finally:
            theirs.shutdown()
            thread.join()


@contextlib.contextmanager
def serving(respond: Callable[[Request], Response]) -> Iterator[int]:
    """The port of a server of jaxobs that answers so."""
    listener, address = listen(Address("localhost", 0), may_move=True)
    server = HttpServer(listener, respond, print)
    server.start()
    try:
        yield address.port
    finally:
        server.stop(5)


def get(port: int, encoding: str, path: str = "/metrics") -> tuple[float, int]:
    """Seconds that a GET takes, and the bytes of the body."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Accept": ACCEPTED[TEXT], "Accept-Encoding": encoding}
    began = time.perf_counter()
    client.request("GET", path, headers=headers)
    body = client.getresponse().read()
    took = time.perf_counter() - began
    client.close()
    return took, len(body)
