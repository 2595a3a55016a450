"""Programs of others, started as `deploy/` configures them, and what is asked of them over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.beside import free_ports, without_settings
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def tool(name: str) -> Path:
    """The pinned program, which `make deployment` has built before."""
    done = subprocess.run(
        [ROOT / ".ci" / "tools.sh", name], capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def get(url: str, **parameters: str) -> Any:
    """The JSON of an answer, or its text where it is none."""
    query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
    with urllib.request.urlopen(f"{url}{query}", timeout=10) as answer:
        body = answer.read().decode()
    try:
        return json.loads(body)
    except ValueError:
        return body


class Program:
    """One that runs until it is ended."""

    def __init__(
        self, command: list[str | Path], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        with log.open("a") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, env={**os.environ, **(environment or {})}
            )

    def end(self) -> None:
        """As a service manager does."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


class Collector:
    """The OpenTelemetry Collector with the configuration that is shipped, at ports of its own."""

    def __init__(self, folder: Path, traces: str) -> None:
        grpc, http, metrics, own = free_ports(4)
        self.endpoint = f"http://127.0.0.1:{http}"
        self.metrics = f"http://127.0.0.1:{metrics}/metrics"
        self.own = f"http://127.0.0.1:{own}/metrics"
        self._log = folder / "collector.log"
        self._environment = {
            "OTLP_GRPC_ADDRESS": f"127.0.0.1:{grpc}", "OTLP_HTTP_ADDRESS": f"127.0.0.1:{http}",
            "PROMETHEUS_ADDRESS": f"127.0.0.1:{metrics}", "OWN_METRICS_HOST": "127.0.0.1",
            "OWN_METRICS_PORT": str(own), "TRACES_ENDPOINT": traces,
        }  # fmt: skip
        self._program: Program | None = None

    def start(self) -> None:
        command: list[str | Path] = [tool("collector"), "--config", DEPLOY / "collector" / "config.yaml"]
        self._program = Program(command, self._log, self._environment)
        wait_for(lambda: get(self.own), "the Collector")

    def stop(self) -> None:
        if self._program is not None:
            self._program.end()
            self._program = None

    def count(self, metric: str) -> int:
        """A counter of the Collector's own, summed over its series."""
        lines = [line for line in str(get(self.own)).splitlines() if line.startswith(metric)]
        return sum(int(float(line.split()[-1])) for line in lines)


class Jaeger:
    """Jaeger, all in one and in memory."""

    def __init__(self, folder: Path) -> None:
        http, query, *others = free_ports(8)
        flags = (
            "collector.otlp.grpc", "collector.grpc-server", "collector.http-server", "query.grpc-server",
            "admin.http", "collector.zipkin",
        )  # fmt: skip
        command: list[str | Path] = [
            tool("jaeger"), f"--collector.otlp.http.host-port=127.0.0.1:{http}",
            f"--query.http-server.host-port=127.0.0.1:{query}",
        ]  # fmt: skip
        command += [f"--{flag}.host-port=127.0.0.1:{port}" for flag, port in zip(flags, others, strict=True)]
        self.endpoint = f"http://127.0.0.1:{http}"
        self._url = f"http://127.0.0.1:{query}/api"
        self._program = Program(command, folder / "jaeger.log")
        wait_for(lambda: get(f"{self._url}/services"), "Jaeger")

    def traces(self, **parameters: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = get(
            f"{self._url}/traces", service="jax", limit="1500", lookback="1h", **parameters
        )["data"]
        return found

    def trace(self, identity: str) -> dict[str, Any]:
        (found,) = get(f"{self._url}/traces/{identity}")["data"]
        return dict(found)

    def spans(self) -> int:
        """How many it has."""
        return sum(len(trace["spans"]) for trace in self.traces())

    def stop(self) -> None:
        self._program.end()


def demo(seconds: int, folder: Path, **variables: str) -> subprocess.Popen[str]:
    """The demo, with settings of its own alone; its result is JSON."""
    command = [sys.executable, "-m", "jaxobs", "demo", "--seconds", str(seconds), "--json"]
    settings = {
        **without_settings(),
        "JAX_PLATFORMS": "cpu",
        "OTEL_EXPORTER_PROMETHEUS_PORT": "0",
        **variables,
    }
    with (folder / "demo.log").open("w") as log:
        return subprocess.Popen(
            command, cwd=ROOT, env=settings, stdout=subprocess.PIPE, stderr=log, text=True
        )
