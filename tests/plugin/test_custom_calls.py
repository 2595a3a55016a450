"""Rules for custom calls from outside: a distribution that pip has built and installed, used by every way to a cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxobs.cost_model import BUILT_IN_RULES
from jaxobs.plugin.custom_calls import load_rules

PROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "acme-kernels"
version = "2.1"

[project.entry-points."jaxobs.custom_calls"]
acme = "acme_kernels:RULES"
acme-late = "acme_kernels:LATE"
broken-import = "acme_kernels:DOES_NOT_EXIST"
no-mapping = "acme_kernels:NUMBER"
no-rules = "acme_kernels:STRINGS"

[tool.setuptools]
py-modules = ["acme_kernels"]
"""

MODULE = """
CALLBACK = "xla_ffi_python_cpu_callback"

def rule(call):
    (operand,) = [shape for shape in call.operands if shape.floating]
    if operand.dimensions == (13,):
        raise SystemExit("unlucky")
    return call.matrix(1000.0 * operand.elements)

RULES = {CALLBACK: rule, "__cudnn$convForward": lambda call: call.matrix(7e6)}
LATE = {CALLBACK: None.__class__}
NUMBER = 3
STRINGS = {"target": "a string"}
"""

SCRIPT = """
import json, logging, time
import jax, jax.numpy as jnp
import jaxobs
from jaxobs.agent.analysis import Analysis

log = []
class Kept(logging.Handler):
    def emit(self, record):
        log.append(record.getMessage())
logging.getLogger("jaxobs").addHandler(Kept())

def function(x):
    return jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

sound, unlucky = jaxobs.cost(function, jnp.ones(64)), jaxobs.cost(function, jnp.ones(13))
modules = [jax.jit(function).lower(jnp.ones(size)).compile().runtime_executable().hlo_modules()[0] for size in (13, 64)]
agent_log = []
analysis = Analysis(agent_log.append, lambda: None)
for number, module in enumerate(modules):
    analysis.submit(number, module.as_serialized_hlo_module_proto())
done = {number: module.cost.to_dict() for number, module, reason in analysis.settle(30)}
costs = {"sound": sound.to_dict(), "unlucky": unlucky.to_dict(), "agent": done}
print(json.dumps(costs | {"log": log, "agent_log": agent_log}))
"""


def _run(*command: str, path: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=150, check=False
    )


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PYTHONPATH on which the distribution is installed."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "acme_kernels.py").write_text(MODULE)
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    done = _run("-m", "pip", "install", *options, "--target", str(target), str(source), path="")
    assert done.returncode == 0, done.stdout + done.stderr
    root = Path(__file__).parents[2]
    return os.pathsep.join(map(str, (target, root, root / "plugins")))


def test_an_installed_rule_is_used_by_cost_and_by_the_agent_and_one_that_fails_is_named(acme: str) -> None:
    done = _run("-c", SCRIPT, path=acme)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for sound, unlucky in [(found["sound"], found["unlucky"]), (found["agent"]["1"], found["agent"]["0"])]:
        assert sound["matrix_flops"] == 64_000
        assert (sound["unmodelled"], sound["exact"]) == ([], True)
        assert unlucky["matrix_flops"] == 0
        assert unlucky["unmodelled"] == ["xla_ffi_python_cpu_callback"]
        assert unlucky["inexact_reasons"] == [
            "rule for custom call xla_ffi_python_cpu_callback raised SystemExit: unlucky"
        ]
    for log in (found["log"], found["agent_log"]):
        said = "\n".join(log)
        assert "broken-import of acme-kernels 2.1 could not be loaded: AttributeError" in said
        assert (
            "no-mapping of acme-kernels 2.1 could not be loaded: an object of type int is no mapping" in said
        )
        assert "no-rules of acme-kernels 2.1 could not be loaded: 'target' is no target with a rule" in said


def test_an_installed_rule_is_used_for_a_trace_before_the_built_in_one(acme: str) -> None:
    trace = Path(__file__).parents[1] / "trace" / "data" / "mi300x_8gpu_conv3d.xplane.pb"
    done = _run("-m", "jaxobs", "analyze", str(trace), "--json", path=acme)
    assert done.returncode == 0, done.stderr
    convolution = next(row for row in json.loads(done.stdout)["operations"] if row["name"] == "cudnn-conv.1")
    assert convolution["executions"] > 0
    assert convolution["matrix_flops"] == 7e6 * convolution["executions"]
    said = (
        "jaxobs analyze: custom calls broken-import of acme-kernels 2.1 could not be loaded: AttributeError"
    )
    assert said in done.stderr


def test_plugins_lists_them_and_why_one_cannot_be_loaded(acme: str) -> None:
    done = _run("-m", "jaxobs", "plugins", "--json", path=acme)
    listed = {
        plugin["name"]: plugin
        for plugin in json.loads(done.stdout)
        if plugin["group"] == "jaxobs.custom_calls"
    }
    assert done.returncode == 1
    assert listed["acme"]["state"] == "loaded"
    assert listed["acme"]["distribution"] == "acme-kernels 2.1"
    assert {name for name, plugin in listed.items() if plugin["error"]} == {
        "broken-import",
        "no-mapping",
        "no-rules",
    }


def test_without_others_the_rules_are_the_built_in_ones() -> None:
    log: list[str] = []
    assert load_rules(log.append) == dict(BUILT_IN_RULES)
    assert log == []
