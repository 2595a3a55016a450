"""What a Prometheus takes that scrapes a whole fleet, and how long the fleet's dashboard and rules take in it.

    python -m benchmarks.fleet [--ranks 256] [--minutes 6] [--print]

A real training is recorded: its page of metrics. One server then answers for so many ranks of it, eight a host, with the
page of each: its counters go on at the pace of the recorded ones, its labels name its rank. A real Prometheus scrapes
them every 15 seconds, with the rules and alerts of deploy/prometheus; at the end it is asked every query of the fleet's
dashboard. Writes docs/results/fleet.md, unless it is to --print.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from benchmarks.beside import free_port
from tests.grafana.scraped import Job
from tests.prometheus_server import PrometheusServer
from tests.waiting import wait_for

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "results" / "fleet.md"
DASHBOARD: Final = ROOT / "grafana" / "dashboards" / "jaxobs-fleet.json"
RULES: Final = ROOT / "deploy" / "prometheus"

RUN: Final = "fleet"
RANKS_OF_A_HOST: Final = 8
SCRAPE_SECONDS: Final = 15
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

COUNTED: Final = re.compile(r"^(\w+(?:_total|_count|_sum|_bucket))(\{.*\})? (\S+)")
"""A sample of a counter or a histogram, whose value grows; exemplars behind it are left out."""

NOW: Final = re.compile(r"^(jaxobs_\w*last_step_timestamp_seconds)(\{.*\})? ")
"""A moment that moves on while the training does."""


class Sample(NamedTuple):
    """A line of the page: what stands before its value, and the value where it grows."""

    words: str
    grows: float | None
    is_now: bool = False


class Recorded:
    """A page of metrics, as any of the ranks would show it later."""

    def __init__(self, text: str, seconds: float) -> None:
        self._seconds = seconds
        self._samples = [self._sample(line) for line in text.splitlines()]
        self._began = time.monotonic()
        self.series = sum(not each.words.startswith("#") for each in self._samples)

    @staticmethod
    def _sample(line: str) -> Sample:
        if counted := COUNTED.match(line):
            return Sample(f"{counted[1]}{counted[2] or ''}", float(counted[3]))
        if now := NOW.match(line):
            return Sample(f"{now[1]}{now[2] or ''}", None, is_now=True)
        return Sample(line.partition(" # {")[0], None)

    def page(self, rank: int) -> bytes:
        """Of this rank, now."""
        grown = 1 + (time.monotonic() - self._began) / self._seconds
        at = f"{time.time():.3f}"
        lines = (
            f"{words} {at}" if is_now else words if grows is None else f"{words} {_number(grows * grown)}"
            for words, grows, is_now in self._samples
        )
        return "\n".join(lines).replace('rank="0"', f'rank="{rank}"').encode() + b"\n"


def _number(value: float) -> str:
    """Counts stay whole."""
    return str(int(value)) if value >= 1 else f"{value:.6g}"


def serve(recorded: Recorded) -> ThreadingHTTPServer:
    """A server at which each rank has a path."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = recorded.page(int(self.path.rpartition("/")[2].partition("?")[0]))
            self.send_response(200)
            self.send_header("Content-Type", OPENMETRICS)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, *_: object) -> None:
            """It would write a line for each scrape."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def recorded_training(folder: Path) -> Recorded:
    """What a training shows on its page at its end."""
    port = free_port()
    job = Job(folder, RUN, JAXOBS_RUN=RUN, RANK="0", WORLD_SIZE="2", OTEL_EXPORTER_PROMETHEUS_PORT=str(port))
    began = time.monotonic()
    try:
        job.trained()
        request = urllib.request.Request(
            f"http://localhost:{port}/metrics", headers={"Accept": OPENMETRICS.partition(";")[0]}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read().decode()
    finally:
        job.end()
    return Recorded(text, time.monotonic() - began)


def start(binary: str, folder: Path, port: int, ranks: int) -> PrometheusServer:
    """A Prometheus that scrapes them all, as `deploy/prometheus/prometheus.yml` does."""
    groups = [
        {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {
                "__metrics_path__": f"/metrics/{rank}",
                "instance": f"node{rank // RANKS_OF_A_HOST}:{9464 + rank % RANKS_OF_A_HOST}",
                "jaxobs_run": RUN,
                "jaxobs_rank": str(rank),
            },
        }
        for rank in range(ranks)
    ]
    (folder / "ranks.json").write_text(json.dumps(groups))
    every = f"{SCRAPE_SECONDS}s"
    configuration = {
        "global": {"scrape_interval": every, "evaluation_interval": every},
        "rule_files": [str(RULES / "rules.yml"), str(RULES / "alerts.yml")],
        "scrape_configs": [
            {
                "job_name": "jax-ranks",
                "honor_labels": True,
                "file_sd_configs": [{"files": [str(folder / "ranks.json")]}],
            }
        ],
    }
    return PrometheusServer(
        Path(binary), folder / "prometheus", json.dumps(configuration), "--web.enable-admin-api"
    )


def queries(run_id: str, seconds: float) -> Iterator[tuple[str, str, bool]]:
    """Title, PromQL and whether it asks for one moment, of each query of the dashboard, with all ranks chosen."""
    values = {
        "__interval": f"{SCRAPE_SECONDS}s",
        "__rate_interval": f"{4 * SCRAPE_SECONDS}s",
        "__range": f"{seconds:.0f}s",
        "run": run_id,
    }
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            if text := target.get("expr"):
                put_in = re.sub(r"\$([a-z_]+)", lambda name: values.get(name[1], ".*"), text)
                yield panel["title"], put_in, bool(target.get("instant"))


class Measured(NamedTuple):
    """Figures by what they are of, and the queries' seconds by their panels' titles."""

    figures: Mapping[str, str]
    queries: Sequence[tuple[str, float]]


def measure(
    prometheus: PrometheusServer, process: psutil.Process, recorded: Recorded, ranks: int
) -> Measured:
    """Ask a Prometheus that has scraped for some minutes what it took."""
    began, used = time.monotonic(), sum(process.cpu_times()[:2])
    time.sleep(4 * SCRAPE_SECONDS)
    cores = (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - began)
    own = dict(_own_metrics(prometheus))
    samples = recorded.series * ranks / SCRAPE_SECONDS
    asked: list[tuple[str, float]] = []
    (info,) = prometheus.query("max by (run_id) (jaxobs_run_info)")
    now = time.time()
    for title, text, is_instant in queries(info["metric"]["run_id"], now - process.create_time()):
        begin = time.perf_counter()
        if is_instant:
            prometheus.get("query", query=text)
        else:
            given = {"start": f"{now - 300}", "end": f"{now}", "step": f"{SCRAPE_SECONDS}"}
            prometheus.get("query_range", query=text, **given)
        asked.append((title, time.perf_counter() - begin))
    page = recorded.page(0)
    rules = "prometheus_rule_group_last_duration_seconds"
    figures = {
        "ranks": f"{ranks}",
        "series of a rank": f"{recorded.series}",
        "bytes of its page": f"{len(page):,}",
        "a scrape of it, median": f"{prometheus.value('quantile(0.5, scrape_duration_seconds)'):.3f} s",
        "series in Prometheus, with those of the rules": f"{own['prometheus_tsdb_head_series']:,.0f}",
        "samples a second": f"{samples:,.0f}",
        "bytes of a sample on disk": f"{_bytes_of_a_sample(prometheus):.2f}",
        "memory of Prometheus": f"{process.memory_info().rss / 2**20:,.0f} MiB",
        "processor time of Prometheus": f"{cores:.2f} cores",
        "all rules and alerts, once": f"{sum(value for name, value in own.items() if name.startswith(rules)):.3f} s",
    }
    return Measured(figures, asked)


def _own_metrics(prometheus: PrometheusServer) -> Iterator[tuple[str, float]]:
    with urllib.request.urlopen(f"{prometheus.address}/metrics", timeout=30) as answer:
        for line in answer.read().decode().splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                yield name, float(value)


def _bytes_of_a_sample(prometheus: PrometheusServer) -> float:
    """Of a block that it writes of all that it holds."""
    snapshot = f"{prometheus.address}/api/v1/admin/tsdb/snapshot"
    with urllib.request.urlopen(urllib.request.Request(snapshot, method="POST"), timeout=120) as answer:
        name = json.load(answer)["data"]["name"]
    blocks = [*(prometheus.folder / "data" / "snapshots" / name).glob("*/meta.json")]
    samples = sum(json.loads(path.read_text())["stats"]["numSamples"] for path in blocks)
    chunks = sum(file.stat().st_size for path in blocks for file in path.parent.glob("chunks/*"))
    return chunks / samples


HEAD: Final = """# A fleet in one Prometheus

`python -m benchmarks.fleet` writes this page: the page of a real training, served for {ranks} ranks, and scraped every
{seconds} s by a real Prometheus with our rules and alerts, on {processors} processors that both share.
[What follows for a larger one](../scale.md).

| what | measured |
|---|---|
"""

THEN: Final = """
Every query of the fleet's dashboard with all ranks chosen, over five minutes:

| panel | seconds |
|---|---|
"""


def main() -> int:
    """Record, serve, scrape, ask."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    binary = shutil.which("prometheus")
    if binary is None:
        print("there is no prometheus on PATH", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="fleet-") as name:
        folder = Path(name)
        recorded = recorded_training(folder)
        server = serve(recorded)
        prometheus = start(binary, folder, server.server_address[1], options.ranks)
        try:
            wait_for(lambda: len(prometheus.query("up == 1")) == options.ranks, "all ranks in Prometheus")
            time.sleep(60 * options.minutes)
            measured = measure(prometheus, psutil.Process(prometheus.pid), recorded, options.ranks)
        finally:
            prometheus.close()
            server.shutdown()
    rows = "".join(f"| {what} | {value} |\n" for what, value in measured.figures.items())
    times = "".join(f"| {title} | {took:.3f} |\n" for title, took in measured.queries)
    middle = statistics.median(took for _, took in measured.queries)
    head = HEAD.format(ranks=options.ranks, seconds=SCRAPE_SECONDS, processors=os.cpu_count())
    text = f"{head}{rows}{THEN}{times}\nThe median is {middle:.3f} s.\n"
    print(text)
    if not options.print:
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
