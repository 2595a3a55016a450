"""The collector on the scripted library, in a process of its own: one JSON request a line, one JSON answer a line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jaxobs_plugins.collectors.nvidia.collector import NvidiaCollector

IN_USE = {"jax.platform": "gpu", "jax.local_hardware_ids": "0"}
"""What JAX tells of its backend where a request says nothing else."""


def run(request: dict[str, Any]) -> dict[str, Any]:
    """One collector's life: `turns` of scripts, of what JAX tells and the job sets, and of seconds before the turn."""
    script, calls = Path(os.environ["NVML_SCRIPT"]), Path(os.environ["NVML_CALLS"])
    said: list[str] = []
    resource: dict[str, str] = {"process.pid": "4321", **request.get("resource", IN_USE)}
    agent: Any = SimpleNamespace(resource=resource, log=said.append)
    seconds = 0.0
    environment: dict[str, str] = request.get("environment", {})
    collector = NvidiaCollector(environment, clock=lambda: seconds)
    turns = []
    script.write_text(request["turns"][0]["script"])
    calls.write_text("")
    collector.start(agent)
    for turn in request["turns"]:
        script.write_text(turn["script"])
        calls.write_text("")
        resource |= turn.get("resource", {})
        environment |= turn.get("environment", {})
        seconds += turn.get("seconds", 0.0)
        measured = [(value.metric, value.labels, str(value.value)) for value in collector.collect()]
        turns.append({"measured": measured, "calls": calls.read_text().split()})
    reason = collector.reason
    calls.write_text("")
    collector.stop()
    collector.stop()
    last = calls.read_text().split()
    present = collector.devices_present()
    return {"turns": turns, "reason": reason, "log": said, "last_calls": last, "present": present}


for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
