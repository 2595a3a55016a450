"""A plugin from outside the tree whose probe, collector and exporter fail at random, and an exporter that never does.

Faults end when the file `calm` is in the folder that SOAK_FOLDER names; there the exporters leave what they were given.
"""

from __future__ import annotations

import gc
import json
import os
import random
import time
from pathlib import Path
from typing import Any

from jaxobs.plugin import base

FOLDER = Path(os.environ.get("SOAK_FOLDER", "."))
SEED = os.environ.get("SOAK_SEED", "")

MAX_HANG = 12.0
"""Seconds: longer than any that jaxobs waits before it says that a plugin does not answer (10)."""

BURST = 6
"""Failures in a row: one more than a plugin may have before it is set aside."""

EVENT_METRICS = ("jaxobs_events_total", "jaxobs_events_emitted_total")

FAULTS = {"none": 40, "raise": 4, "burst": 1, "hang": 2, "rubbish": 3}
"""How often each is drawn."""


class FaultError(RuntimeError):
    """What the plugin raises on purpose."""


class Faults:
    """Draws what goes wrong at each call."""

    def __init__(self, part: str) -> None:
        self._chance = random.Random(f"{SEED} {part}")
        self._burst = 0

    def happen(self) -> str:
        """Raise, hang, or say that rubbish is wanted."""
        if (FOLDER / "calm").exists():
            return "none"
        fault = self._chance.choices(list(FAULTS), list(FAULTS.values()))[0]
        if fault == "burst":
            self._burst = BURST
        if self._burst:
            self._burst -= 1
            fault = "raise"
        if fault == "raise":
            raise FaultError("on purpose")
        if fault == "hang":
            time.sleep(self._chance.uniform(1.0, MAX_HANG))
        return fault


def declared(name: str, kind: Any) -> Any:
    """A metric with one label."""
    from jaxobs.model.metrics import Metric

    return Metric(name, kind, "Made by the soak.", ("label",))


def values(metric: str, fault: str) -> list[Any]:
    """Two sound values; as rubbish others, each of which jaxobs must refuse and count."""
    from jaxobs.model.clock import now
    from jaxobs.model.events import Measured

    if fault != "rubbish":
        return [Measured(metric, (str(number),), 1.0, now()) for number in range(2)]
    return [
        Measured(metric, ("0",), -1.0, now()),
        Measured(metric, ("0",), float("nan"), now()),
        Measured(metric, (), 1.0, now()),
        Measured("soak_undeclared", ("0",), 1.0, now()),
        Measured(metric, (object(),), 1.0, now()),  # type: ignore[arg-type]  # no pipe takes it
        Measured(metric, ("0",), "much", now()),  # type: ignore[arg-type]  # no number
    ]


class Probe(base.Probe):
    """Sampled once a second; and a hook that runs in the middle of the job's loop, as JAX's listeners do."""

    metrics = (declared("soak_probe_total", "counter"),)

    def __init__(self) -> None:
        self._samples = Faults("probe")

    def start(self, job: Any) -> None:
        self._job = job
        self._hook = job.guard(self._collected)
        gc.callbacks.append(self._hook)

    def stop(self) -> None:
        if self._hook in gc.callbacks:
            gc.callbacks.remove(self._hook)

    def sample(self) -> None:
        for value in values("soak_probe_total", self._samples.happen()):
            self._job.emit(value)

    def _collected(self, phase: str, _: dict[str, int]) -> None:
        # Never a hang here: on the job's own thread a plugin's time is the job's, whatever jaxobs does.
        if phase == "start" and not (FOLDER / "calm").exists() and random.random() < 0.05:
            raise FaultError("in a hook, on purpose")


class Collector(base.Collector):
    """Polled by the agent."""

    metrics = (declared("soak_collector_total", "counter"),)
    interval = 1.0

    def __init__(self) -> None:
        self._faults = Faults("collector")

    def collect(self) -> list[Any]:
        return values("soak_collector_total", self._faults.happen())


class Witness(base.Exporter):
    """Takes everything it is given, and at the end tells how much that was."""

    name = "witness"

    def __init__(self) -> None:
        self.events = self.spans = self.dropped = 0
        self.metrics_of_events: dict[str, float] = {}

    def export(self, batch: Any) -> None:
        self.events += len(batch.events)
        self.spans += len(batch.spans)
        for family in batch.snapshot.families:
            if family.metric.name in EVENT_METRICS:
                for labels, value in family.series.items():
                    self.metrics_of_events["".join(labels) or "emitted"] = value

    def delivery(self) -> base.Delivery:
        return base.Delivery(dropped=self.dropped)

    def stop(self, timeout: float) -> None:  # noqa: ARG002  # of the contract
        told: dict[str, Any] = {"events": self.events, "spans": self.spans, "dropped": self.dropped}
        told["metrics"] = self.metrics_of_events
        (FOLDER / f"{self.name}.json").write_text(json.dumps(told))


class FailingExporter(Witness):
    """Loses a batch each time it raises, and counts what was in it."""

    name = "failing"

    def __init__(self) -> None:
        super().__init__()
        self._faults = Faults("exporter")

    def export(self, batch: Any) -> None:
        try:
            self._faults.happen()
        except FaultError:
            self.dropped += len(batch.events) + len(batch.spans)
            raise
        super().export(batch)
