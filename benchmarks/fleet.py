"""What a Prometheus takes that scrapes a whole fleet, and how long the fleet's dashboard and rules take in it.

    python -m benchmarks.fleet [--ranks 256] [--minutes 6]

A real training is recorded: its page of metrics. One server then answers for so many ranks of it, eight a host, with the
page of each: its counters go on at the pace of the recorded ones, its labels name its rank. A real Prometheus scrapes
them every 15 seconds, with the rules and alerts of deploy/prometheus; at the end it is asked every query of the fleet's
dashboard. Nothing is judged.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import psutil

from benchmarks.beside import free_port
from benchmarks.truths import Figure, Table, options_of
from tests.grafana.scraped import Job
from tests.prometheus_server import PrometheusServer
from tests.waiting import wait_for

ROOT: Final = Path(__file__).parents[1]
DASHBOARD: Final = ROOT / "grafana" / "dashboards" / "jaxobs-fleet.json"
RULES: Final = tuple(ROOT / "deploy" / "prometheus" / name for name in ("rules.yml", "alerts.yml"))

RUN: Final = "fleet"
RANKS_OF_A_HOST: Final = 8
SCRAPE_SECONDS: Final = 15
EVERY: Final = f"{SCRAPE_SECONDS}s"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

COUNTED: Final = re.compile(r"(?m)^(\w+(?:_total|_count|_sum|_bucket)(?:\{.*\})? )(\S+)")
"""A sample of a counter or a histogram, whose value grows."""

NOW: Final = re.compile(r"(?m)^(jaxobs_\w*last_step_timestamp_seconds(?:\{.*\})? )\S+")
"""A moment that moves on while the training does."""


class Recorded:
    """A page of metrics, as any of the ranks would show it later."""

    def __init__(self, text: str, seconds: float) -> None:
        self._seconds, self._began = seconds, time.monotonic()
        self._text = re.sub(r"(?m) # \{.*$", "", text)  # without exemplars
        self.series = sum(not line.startswith("#") for line in text.splitlines())

    def page(self, rank: int) -> bytes:
        """Of this rank, now."""
        factor = 1 + (time.monotonic() - self._began) / self._seconds

        def grown(line: re.Match[str]) -> str:
            value = factor * float(line[2])
            return line[1] + (str(int(value)) if value >= 1 else f"{value:.6g}")  # counts stay whole

        text = NOW.sub(rf"\g<1>{time.time():.3f}", COUNTED.sub(grown, self._text))
        return text.replace('rank="0"', f'rank="{rank}"').encode()


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


def configuration(port: int, ranks: int) -> str:
    """Scrapes them all, as `deploy/prometheus/prometheus.yml` does, with our rules."""
    groups = []
    for rank in range(ranks):
        labels = {
            "__metrics_path__": f"/metrics/{rank}",
            "instance": f"node{rank // RANKS_OF_A_HOST}:{9464 + rank % RANKS_OF_A_HOST}",
            "jaxobs_run": RUN,
            "jaxobs_rank": str(rank),
        }
        groups.append({"targets": [f"127.0.0.1:{port}"], "labels": labels})
    job = {"job_name": "jax-ranks", "honor_labels": True, "static_configs": groups}
    intervals = {"scrape_interval": EVERY, "evaluation_interval": EVERY}
    rules = [str(path) for path in RULES]
    return json.dumps({"global": intervals, "scrape_configs": [job], "rule_files": rules})


def queries(run_id: str, seconds: float) -> Iterator[tuple[str, str, bool]]:
    """Title, PromQL and whether it asks for one moment, of each query of the dashboard, with all ranks chosen."""
    rate, span = f"{4 * SCRAPE_SECONDS}s", f"{seconds:.0f}s"
    values = {"__interval": EVERY, "__rate_interval": rate, "__range": span, "run": run_id}
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            if text := target.get("expr"):
                put_in = re.sub(r"\$([a-z_]+)", lambda name: values.get(name[1], ".*"), text)
                yield panel["title"], put_in, bool(target.get("instant"))


def asked(server: PrometheusServer, run_id: str, now: float, seconds: float) -> Iterator[Figure]:
    """How long each query of the dashboard takes, over five minutes that end `now`."""
    moment = {"time": f"{now}"}
    minutes = {"start": f"{now - 300}", "end": f"{now}", "step": f"{SCRAPE_SECONDS}"}
    for title, text, is_instant in queries(run_id, seconds):
        path, given = ("query", moment) if is_instant else ("query_range", minutes)
        begin = time.perf_counter()
        answer = server.get(path, query=text, **given)
        yield Figure(title, time.perf_counter() - begin, unit="s", note=f"{len(answer['result'])} series")


def measured(prometheus: PrometheusServer, recorded: Recorded, ranks: int) -> Iterator[Figure]:
    """What a Prometheus takes that has scraped for some minutes."""
    process = psutil.Process(prometheus.pid)
    cores = process.cpu_percent(4 * SCRAPE_SECONDS) / 100
    own = dict(_own_metrics(prometheus))
    rules = "prometheus_rule_group_last_duration_seconds"
    yield Figure("series of a rank", recorded.series)
    yield Figure("bytes of its page", len(recorded.page(0)))
    scrape = prometheus.value("quantile(0.5, scrape_duration_seconds)")
    yield Figure("a scrape of it, median", scrape, unit="s")
    yield Figure("series in Prometheus, with those of the rules", own["prometheus_tsdb_head_series"])
    yield Figure("samples a second", recorded.series * ranks / SCRAPE_SECONDS)
    yield Figure("bytes of a sample on disk", _bytes_of_a_sample(prometheus))
    yield Figure("memory of Prometheus", process.memory_info().rss / 2**20, unit="MiB")
    yield Figure("processor time of Prometheus", cores, unit="cores")
    seconds = sum(value for name, value in own.items() if name.startswith(rules))
    yield Figure("all rules and alerts, once", seconds, unit="s")


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
    return float(chunks / samples)


def main() -> int:
    """Record, serve, scrape, ask."""
    parser = options_of(__doc__, only=False)
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--minutes", type=float, default=6.0)
    options = parser.parse_args()
    binary, table = shutil.which("prometheus"), Table()
    if binary is None:
        parser.error("there is no prometheus on PATH")
    with tempfile.TemporaryDirectory(prefix="fleet-") as name, ExitStack() as servers:
        folder = Path(name)
        recorded = recorded_training(folder)
        ranks = serve(recorded)
        servers.callback(ranks.shutdown)
        given = configuration(ranks.server_address[1], options.ranks)
        prometheus = PrometheusServer(Path(binary), folder / "prometheus", given, "--web.enable-admin-api")
        servers.callback(prometheus.close)
        wait_for(lambda: len(prometheus.query("up == 1")) == options.ranks, "all ranks in Prometheus")
        began = time.time()
        time.sleep(60 * options.minutes)
        table.add(f"{options.ranks} ranks", measured(prometheus, recorded, options.ranks))
        (info,) = prometheus.query("max by (run_id) (jaxobs_run_info)")
        times = [*asked(prometheus, info["metric"]["run_id"], time.time(), time.time() - began)]
        middle = statistics.median(float(each.found or 0.0) for each in times)
        table.add("queries", [*times, Figure(f"median of all {len(times)}", middle, unit="s")])
    return table.status()


if __name__ == "__main__":
    sys.exit(main())
