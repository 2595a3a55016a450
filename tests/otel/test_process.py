"""What only a process of its own can show: imports, the console, the exit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from types import SimpleNamespace
from jaxobs.model.clock import ClockAnchor, now
from jaxobs.model.snapshot import SnapshotData
from jaxobs.model.events import Span
from jaxobs.plugin.protocol import Batch
from jaxobs_plugins.otel.exporter import OpenTelemetryExporter

print_not = lambda event: None
agent = SimpleNamespace(settings={}, resource={}, clock=ClockAnchor.read(), log=lambda message: None, emit=print_not)
exporter = OpenTelemetryExporter()
exporter.start(agent)
spans = tuple(Span("s", 1, number, None, now(), now(), ()) for number in range(1, 20))
for action in (lambda: exporter.export(Batch(SnapshotData(now(), {}), (), spans)), lambda: exporter.stop(1.0)):
    try:
        action()
    except RuntimeError as error:
        print(error)
print("opentelemetry" in sys.modules, "jax" in sys.modules, flush=True)
"""


def run(**variables: str) -> subprocess.CompletedProcess[str]:
    """The program's end, which comes within a minute."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    path = os.pathsep.join((str(ROOT), str(ROOT / "plugins"), os.environ.get("PYTHONPATH", "")))
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env={**clean, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_an_endpoint_nothing_of_opentelemetry_is_imported() -> None:
    done = run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "False False\n", "")


def test_a_refusing_endpoint_prints_nothing_but_what_is_raised(refusing: str) -> None:
    done = run(OTEL_EXPORTER_OTLP_ENDPOINT=refusing)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"OTLP traces to {refusing}/v1/traces: " in done.stdout
    assert "19 spans dropped so far" in done.stdout
    assert done.stdout.endswith("True False\n")


def test_a_black_hole_does_not_hold_up_the_exit(black_hole: str) -> None:
    done = run(
        OTEL_EXPORTER_OTLP_ENDPOINT=black_hole, OTEL_EXPORTER_OTLP_TIMEOUT="600000"
    )  # ten minutes, in ms
    assert (done.returncode, done.stderr) == (0, "")
