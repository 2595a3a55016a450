"""What stands beside the process that measures: what it gives to others and reads of them, ports, cores, plugins."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

ROOT = Path(__file__).parents[1]


def without_settings() -> dict[str, str]:
    """This process's environment without the variables of jaxobs, of OpenTelemetry, W&B and MLflow.

    Jobs leave the records of their runs elsewhere than in the user's own state directory, which keeps a hundred.
    """
    prefixes = ("JAXOBS_", "OTEL_", "WANDB_", "MLFLOW_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return {"XDG_STATE_HOME": str(Path(tempfile.gettempdir()) / "jaxobs-benchmarks"), **kept}


def job_environment(*folders: Path, **own: str) -> dict[str, str]:
    """What a job on the CPU is given: modules of the folders and of this checkout, any free port, and `own` variables."""
    path = os.pathsep.join(map(str, (*folders, ROOT, ROOT / "plugins")))
    usual = {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
    return without_settings() | usual | own


def free_port() -> int:
    """A port that nobody has now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many of them, each another."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def page_at(address: str, accept: str = "text/plain; version=0.0.4") -> str:
    """A page of metrics. Raises OSError where it cannot be had."""
    with urllib.request.urlopen(
        urllib.request.Request(address, headers={"Accept": accept}), timeout=30
    ) as page:
        text: str = page.read().decode()
    return text


def series_of(page: str) -> list[Sample]:
    """Every sample of a page in Prometheus's text format, by prometheus-client's own parser."""
    from prometheus_client.parser import text_string_to_metric_families

    return [sample for family in text_string_to_metric_families(page) for sample in family.samples]


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many other processes, each of which would take a whole core."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def install(folder: Path, name: str, code: str, entry_points: Mapping[str, str]) -> None:
    """Put a plugin into a folder for PYTHONPATH, as pip would: a distribution of one module, `name`.

    `entry_points` by group: `plugin = module:Class`, a line each.
    """
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    sections = [f"[{group}]\n{lines}\n" for group, lines in entry_points.items()]
    (information / "entry_points.txt").write_text("\n".join(sections))
    (folder / f"{name}.py").write_text(code)
