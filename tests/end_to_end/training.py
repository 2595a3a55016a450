"""Training processes as a user would start them, and what is asked of them from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from benchmarks.beside import without_settings
from tests.prometheus_server import EXEMPLARS, PrometheusServer

PATIENCE = 40.0
"""Seconds: JAX's import and first compile on a loaded machine with two cores."""

PREPARE = """
import gc, json, os, sys, time
import jax, jax.numpy as jnp
import jaxobs

@jax.jit
def train_step(weights, batch):
    def loss_of(w):
        return jnp.mean(jnp.square(jnp.tanh(batch @ w)))
    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return weights - 0.1 * gradient, loss

def say(**facts):
    print(json.dumps(facts), flush=True)

def wait():
    return sys.stdin.readline()

def train(obs, steps, pause=0.002):
    global train_step
    train_step = obs.watch(train_step)
    weights, batch = jnp.ones((64, 64)), jnp.ones((32, 64))
    for number in obs.steps(range(steps), examples=32):
        weights, loss = train_step(weights, batch)
        obs.record(loss=loss)
        time.sleep(pause)
    loss.block_until_ready()
"""


class Training:
    """A script under way. It says lines of JSON, and waits at its standard input."""

    def __init__(self, script: str, environment: Mapping[str, str], errors: Path) -> None:
        self._errors = errors
        path = os.pathsep.join([*environment.get("PYTHONPATH", "").split(os.pathsep), *sys.path])
        with errors.open("w") as standard_error:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PREPARE + script],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=standard_error, text=True,
                env={
                    **without_settings(), "JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0",
                    "JAXOBS_INTERVAL": "0.2",
                    "JAXOBS_SHUTDOWN_TIMEOUT": "20",  # on a busy machine an agent needs more than the default
                    **environment, "PYTHONPATH": path,
                },
            )  # fmt: skip

    def hear(self) -> dict[str, Any]:
        """The next line that it says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended without a word: {self.errors()}"
        heard: dict[str, Any] = json.loads(line)
        return heard

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Its exit status."""
        self.go_on()
        return self.process.wait(PATIENCE)

    def errors(self) -> str:
        return self._errors.read_text()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        pipes: tuple[IO[str] | None, ...] = (self.process.stdin, self.process.stdout)
        for pipe in pipes:
            if pipe is not None:
                pipe.close()


def page(address: str, accept: str = "text/plain") -> str:
    """What is served there now."""
    request = urllib.request.Request(address, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def prometheus_of(binary: Path, folder: Path, targets: Path, rules: str = "") -> PrometheusServer:
    """Finds its targets in a folder, and evaluates the file `rules`."""
    configuration = (
        "global: {scrape_interval: 500ms, evaluation_interval: 1s}\n"
        f"rule_files: [{rules}]\n"
        "scrape_configs:\n"
        "- job_name: jax\n"
        "  honor_labels: true\n"
        "  file_sd_configs:\n"
        f"  - {{files: ['{targets}/*.json'], refresh_interval: 1s}}\n"
    )
    return PrometheusServer(binary, folder, configuration, EXEMPLARS)
