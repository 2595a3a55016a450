"""datarax's ``performance.roofline`` on the programs of the suite, in an environment of its own.

datarax pins an old protobuf and TensorFlow, so it is run by the interpreter of another environment:
``python -m benchmarks.accuracy.peers [--only TEXT]`` there prints one JSON object for each program. It has no function
for FLOPs or bytes alone: they follow from what its public ``analyze_operation`` returns, the intensity I and the
theoretical time t = max(FLOPs / P, bytes / B) at the peaks P and B it assumes.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import subprocess
from typing import Any

DISTRIBUTION = "datarax"


def figures_from(python: str, only: str) -> tuple[str, dict[str, Any]]:
    """Its version, and figures by program. Raises OSError or RuntimeError where there are none."""
    from benchmarks.accuracy.comparison import Others

    command = [python, "-m", "benchmarks.accuracy.peers", "--only", only]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"its process ended with status {done.returncode}: {done.stderr.strip()[-300:]}")
    return lines[0]["version"], {line.pop("name"): Others(**line) for line in lines[1:]}


def main() -> None:
    """Runs in the other environment: imports no jaxobs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy.peers")
    parser.add_argument("--only", default="")
    only = parser.parse_args().only

    from datarax.performance.roofline import RooflineAnalyzer

    from benchmarks.accuracy.suite import programs

    print(json.dumps({"version": importlib.metadata.version(DISTRIBUTION)}), flush=True)
    analyzer = RooflineAnalyzer("cpu")
    for program in programs(only):
        flops = moved = None
        error = ""
        try:
            flops, moved = _flops_and_bytes(analyzer, program)
        except Exception as failure:  # noqa: BLE001 whatever it raises is its answer
            error = f"{type(failure).__name__}: {failure}".splitlines()[0][:200]
        print(json.dumps({"name": program.name, "flops": flops, "bytes": moved, "error": error}), flush=True)


def _flops_and_bytes(analyzer: Any, program: Any) -> tuple[float, float]:
    found = analyzer.analyze_operation(program.function, *program.arguments)
    seconds, intensity = found["theoretical_time_ms"] / 1000, found["arithmetic_intensity"]
    peaks = analyzer.hw_specs
    if intensity * peaks.hbm_bandwidth >= peaks.peak_flops_bf16:
        flops = seconds * peaks.peak_flops_bf16
        return flops, 0.0 if math.isinf(intensity) else flops / intensity
    moved = seconds * peaks.hbm_bandwidth
    return moved * intensity, moved


if __name__ == "__main__":
    main()
