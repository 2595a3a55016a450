"""What a Prometheus takes that scrapes a whole fleet, and how long the fleet's dashboard and rules take in it.

    python -m benchmarks.fleet [--ranks 256] [--minutes 6] [--victoria-metrics FOLDER]

A real training is recorded: its page of metrics. One server then answers for so many ranks of it, eight a host, with the
page of each: its counters go on at the pace of the recorded ones, its labels name its rank. A real Prometheus scrapes
them every 15 seconds, with the rules and alerts of deploy/prometheus; at the end it is asked every query of the fleet's
dashboard. With a folder that has `victoria-metrics` and `vmalert` in it (`go install
github.com/VictoriaMetrics/VictoriaMetrics/app/{victoria-metrics,vmalert}@v1.130.0`) these do the same beside it. Exit
status 1 where a query has another number of series there.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from benchmarks.beside import ROOT, free_port, free_ports, page_at, series_of
from benchmarks.truths import Figure, Table, options_of
from tests.grafana.scraped import Job
from tests.prometheus_server import PrometheusServer, PromQlServer
from tests.waiting import wait_for

DASHBOARD: Final = ROOT / "grafana" / "dashboards" / "jaxobs-fleet.json"
RULES: Final = tuple(ROOT / "deploy" / "prometheus" / name for name in ("rules.yml", "alerts.yml"))

RUN: Final = "fleet"
RANKS_OF_A_HOST: Final = 8
SCRAPE_SECONDS: Final = 15
EVERY: Final = f"{SCRAPE_SECONDS}s"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

COUNTED: Final = re.compile(r"(?m)^(\w+(?:_total|_count|_sum|_bucket)(?:\{.*\})?) (\S+)")
"""A sample of a counter or a histogram, whose value grows."""

NOW: Final = re.compile(r"(?m)^(jaxobs_\w*last_step_timestamp_seconds(?:\{.*\})?) \S+")
"""A moment that moves on while the training does."""

EXEMPLAR: Final = re.compile(r"(?m) # \{.*$")


class Recorded:
    """A page of metrics, without its exemplars, as any of the ranks would show it later."""

    def __init__(self, text: str, seconds: float) -> None:
        self._text, self._seconds, self._began = EXEMPLAR.sub("", text), seconds, time.monotonic()
        self.series = sum(not line.startswith("#") for line in text.splitlines())

    def page(self, rank: int) -> bytes:
        """Of this rank, now."""
        grown = 1 + (time.monotonic() - self._began) / self._seconds
        text = COUNTED.sub(lambda found: f"{found[1]} {_number(grown * float(found[2]))}", self._text)
        text = NOW.sub(rf"\g<1> {time.time():.3f}", text)
        return text.replace('rank="0"', f'rank="{rank}"').encode()


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
        text = page_at(f"http://localhost:{port}/metrics", OPENMETRICS.partition(";")[0])
    finally:
        job.end()
    return Recorded(text, time.monotonic() - began)


def scrape_config(folder: Path, port: int, ranks: int) -> dict[str, Any]:
    """Scrapes them all, as `deploy/prometheus/prometheus.yml` does."""
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
    job = {
        "job_name": "jax-ranks",
        "honor_labels": True,
        "file_sd_configs": [{"files": [str(folder / "ranks.json")]}],
    }
    return {"global": {"scrape_interval": EVERY}, "scrape_configs": [job]}


def start(binary: str, folder: Path, configuration: Mapping[str, Any]) -> PrometheusServer:
    """A Prometheus with our rules."""
    whole = {
        **configuration,
        "global": configuration["global"] | {"evaluation_interval": EVERY},
        "rule_files": [str(path) for path in RULES],
    }
    return PrometheusServer(Path(binary), folder / "prometheus", json.dumps(whole), "--web.enable-admin-api")


class VictoriaMetrics(PromQlServer):
    """VictoriaMetrics, with our rules in its `vmalert`."""

    def __init__(self, binaries: Path, folder: Path, configuration: Mapping[str, Any]) -> None:
        port, port_of_rules = free_ports(2)
        folder.mkdir()
        (folder / "scrape.yml").write_text(json.dumps(configuration))
        super().__init__(
            folder, port, binaries / "victoria-metrics", f"-promscrape.config={folder / 'scrape.yml'}",
            f"-storageDataPath={folder / 'data'}", f"-httpListenAddr=127.0.0.1:{port}",
        )  # fmt: skip
        self._rules = subprocess.Popen(
            [
                binaries / "vmalert", *(f"-rule={path}" for path in RULES), f"-evaluationInterval={EVERY}",
                *(f"-{what}.url={self.address}" for what in ("datasource", "remoteWrite", "remoteRead")),
                "-notifier.blackhole", f"-httpListenAddr=127.0.0.1:{port_of_rules}",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def close(self) -> None:
        self._rules.terminate()
        self._rules.wait(30)
        super().close()


def queries(run_id: str, seconds: float) -> Iterator[tuple[str, str, bool]]:
    """Title, PromQL and whether it asks for one moment, of each query of the dashboard, with all ranks chosen."""
    values = {
        "__interval": EVERY,
        "__rate_interval": f"{4 * SCRAPE_SECONDS}s",
        "__range": f"{seconds:.0f}s",
        "run": run_id,
    }
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            if text := target.get("expr"):
                put_in = re.sub(r"\$([a-z_]+)", lambda name: values.get(name[1], ".*"), text)
                yield panel["title"], put_in, bool(target.get("instant"))


class Asked(NamedTuple):
    """A panel's query: how long it took, and how many series it gave."""

    title: str
    seconds: float
    series: int


def ask(server: PromQlServer, run_id: str, now: float, seconds: float) -> list[Asked]:
    """Each query of the dashboard, over five minutes that end `now`."""
    asked = []
    for title, text, is_instant in queries(run_id, seconds):
        begin = time.perf_counter()
        if is_instant:
            answer = server.get("query", query=text, time=f"{now}")
        else:
            given = {"start": f"{now - 300}", "end": f"{now}", "step": f"{SCRAPE_SECONDS}"}
            answer = server.get("query_range", query=text, **given)
        asked.append(Asked(title, time.perf_counter() - begin, len(answer["result"])))
    return asked


def measure(prometheus: PrometheusServer, recorded: Recorded, ranks: int) -> Iterator[Figure]:
    """What a Prometheus takes that has scraped for some minutes."""
    process = psutil.Process(prometheus.pid)
    began, used = time.monotonic(), sum(process.cpu_times()[:2])
    time.sleep(4 * SCRAPE_SECONDS)
    cores = (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - began)
    own = series_of(page_at(f"{prometheus.address}/metrics"))
    values = {one.name: one.value for one in own}
    yield Figure("ranks", ranks)
    yield Figure("series of a rank", recorded.series)
    yield Figure("bytes of its page", f"{len(recorded.page(0)):,}")
    yield Figure(
        "a scrape of it, median", prometheus.value("quantile(0.5, scrape_duration_seconds)"), unit="s"
    )
    yield Figure("series, with those of the rules", f"{values['prometheus_tsdb_head_series']:,.0f}")
    yield Figure("samples a second", f"{recorded.series * ranks / SCRAPE_SECONDS:,.0f}")
    yield Figure("bytes of a sample on disk", _bytes_of_a_sample(prometheus))
    yield Figure("memory", process.memory_info().rss / 2**20, unit="MiB")
    yield Figure("processor time", cores, unit="cores")
    once = sum(one.value for one in own if one.name == "prometheus_rule_group_last_duration_seconds")
    yield Figure("all rules and alerts, once", once, unit="s")


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
    parser.add_argument("--victoria-metrics", type=Path, metavar="FOLDER", help="of its binaries")
    options = parser.parse_args()
    binary = shutil.which("prometheus")
    if binary is None:
        print("there is no prometheus on PATH", file=sys.stderr)
        return 2
    table = Table()
    with tempfile.TemporaryDirectory(prefix="fleet-") as name, ExitStack() as servers:
        folder = Path(name)
        recorded = recorded_training(folder)
        ranks = serve(recorded)
        servers.callback(ranks.shutdown)
        configuration = scrape_config(folder, ranks.server_address[1], options.ranks)
        prometheus = start(binary, folder, configuration)
        servers.callback(prometheus.close)
        wait_for(lambda: len(prometheus.query("up == 1")) == options.ranks, "all ranks in Prometheus")
        began = time.time()
        time.sleep(60 * options.minutes)
        table.add("Prometheus", measure(prometheus, recorded, options.ranks))
        other = None
        if options.victoria_metrics is not None:  # not before: both would share the processors
            other = VictoriaMetrics(options.victoria_metrics, folder / "victoria", configuration)
            servers.callback(other.close)
            time.sleep(60 * options.minutes)
        (info,) = prometheus.query("max by (run_id) (jaxobs_run_info)")
        given = info["metric"]["run_id"], time.time(), time.time() - began
        asked = ask(prometheus, *given)
        table.add(
            "dashboard",
            (Figure(one.title, one.seconds, unit="s", note=f"{one.series} series") for one in asked),
        )
        middle = statistics.median(one.seconds for one in asked)
        table.add("dashboard", [Figure("median", middle, unit="s", note=f"of {len(asked)} queries")])
        if other is not None:
            both = zip(asked, ask(other, *given), strict=True)
            table.add(
                "VictoriaMetrics",
                (Figure(f"series of {one.title}", its.series, one.series) for one, its in both),
            )
    return table.status()


if __name__ == "__main__":
    sys.exit(main())
