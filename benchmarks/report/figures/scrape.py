"""Seconds and size of one scrape of 10 000 series, as a scraper sees it: `python benchmarks/scrape.py`.

First: the page of a new snapshot, rendered for this scrape. Again: the same snapshot's page, from the cache.
"""

import gzip
import http.client
import time
from statistics import median

from jaxobs.model.metrics import Exemplar, Family, HistogramValue, Metric
from jaxobs_plugins.prometheus.address import Address, listen
from jaxobs_plugins.prometheus.hosts import AllowedHosts, LocalNames
from jaxobs_plugins.prometheus.page import MetricsPage
from jaxobs_plugins.prometheus.render import OPENMETRICS, TEXT
from jaxobs_plugins.prometheus.routes import answer
from jaxobs_plugins.prometheus.server import HttpServer

SERIES = 10_000
ROUNDS = 7
RESOURCE = {"service.name": "benchmark", "host.name": "localhost", "process.pid": "1"}
STEP_BUCKETS = tuple(1e-4 * 1.6**index for index in range(33))  # 100 µs to 5 min
ACCEPTED = {TEXT: "text/plain", OPENMETRICS: "application/openmetrics-text;version=1.0.0"}


def example_families(series: int) -> tuple[Family, ...]:
    """Ten histograms, and as many counters as gauges, with labels as those of executables."""
    exemplar = Exemplar("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 0.02, 1.7e9)
    buckets = len(STEP_BUCKETS) + 1
    steps = Family(
        Metric(
            "jaxobs_step_seconds", "histogram", "Spacing of completions.", ("loop",), "seconds", STEP_BUCKETS
        ),
        {(f"loop{i}",): HistogramValue((i,) * buckets, 1.5 * i, (exemplar,) * buckets) for i in range(10)},
    )
    rest = series - 10 * (buckets + 2)
    labels = [(f"train_step_{index}", f"{index:012x}") for index in range(rest // 2)]
    names = ("function", "executable")
    seconds = Metric("jaxobs_executable_seconds_total", "counter", "Device time.", names, "seconds")
    flops = Metric("jaxobs_executable_flops", "gauge", "FLOPs of one run.", names, "flops")
    return (
        steps,
        Family(seconds, {key: 0.123456789 * index for index, key in enumerate(labels)}),
        Family(flops, {key: 1e9 + index for index, key in enumerate(labels)}),
    )


def main() -> None:
    """Print one line for each format and encoding: medians of `ROUNDS` scrapes."""
    families = example_families(SERIES)
    page = MetricsPage()
    listener, address = listen(Address("localhost", 0), may_move=True)
    hosts = AllowedHosts(LocalNames(), (), from_network=False)
    server = HttpServer(listener, lambda request: answer(request, page, hosts), print)
    server.start()
    client = http.client.HTTPConnection("127.0.0.1", address.port, timeout=30)

    def scrape(accept: str, encoding: str) -> tuple[float, bytes]:
        started = time.perf_counter()
        client.request("GET", "/metrics", headers={"Accept": accept, "Accept-Encoding": encoding})
        body = client.getresponse().read()
        return time.perf_counter() - started, body

    print(f"{'format':12} {'encoding':9} {'series':>7} {'bytes':>9} {'first s':>9} {'again s':>9}")
    for content_type, accept in ACCEPTED.items():
        for encoding in ("identity", "gzip"):
            first, again, body = [], [], b""
            for _ in range(ROUNDS):
                page = MetricsPage(families, RESOURCE)
                first.append(scrape(accept, encoding)[0])
                seconds, body = scrape(accept, encoding)
                again.append(seconds)
            plain = gzip.decompress(body) if encoding == "gzip" else body
            series = sum(not line.startswith(b"#") for line in plain.splitlines())
            name = "OpenMetrics" if content_type == OPENMETRICS else "text"
            figures = f"{series:7} {len(body):9} {median(first):9.4f} {median(again):9.4f}"
            print(f"{name:12} {encoding:9} {figures}")
    client.close()
    server.stop(5)


if __name__ == "__main__":
    main()
