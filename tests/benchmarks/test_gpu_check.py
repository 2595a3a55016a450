"""The command that is run on GPUs, tried on a CPU: that it cannot rot until there is one."""

from __future__ import annotations

import importlib
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.samples import Sample

from benchmarks.gpu_check import machine
from benchmarks.gpu_check.checks.readings import READINGS, compare
from benchmarks.gpu_check.machine import Machine
from benchmarks.gpu_check.place import FIGURES, said_in, say
from benchmarks.gpu_check.runner import CHECKS, Check, run_all
from benchmarks.gpu_check.transformer import (
    LARGE,
    SMALL,
    model_flops,
    product_parameters,
    rematerialized_flops,
)
from benchmarks.truths import Figure
from jaxobs.cli.demonstration import initial_parameters, train_step

ROOT = Path(__file__).parents[2]
CPU = Machine("cpu", "cpu", {})


def verdicts(figures: Iterable[Figure]) -> dict[str, str]:
    return {figure.name: figure.verdict for figure in figures}


@pytest.mark.long
def test_a_run_on_a_cpu_writes_its_page_and_its_evidence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu_check", "--minutes", "2", "--output", str(tmp_path)]
    done = subprocess.run(
        [*command, "--only", "device,out_of_memory"],
        cwd=ROOT, env=os.environ | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("*-cpu.md")
    text = path.read_text()
    assert "| device kind | cpu | cpu | right |" in text
    assert "| reports | 1 | 1 | right |" in text
    assert "| the row of the datasheet | – | – | absent | 'cpu' is no GPU, and has no row |" in text
    assert "| WRONG |" not in text
    evidence = tmp_path / path.stem
    assert {"check.json", "figures.jsonl", "log.txt"} <= {
        file.name for file in (evidence / "device").iterdir()
    }
    assert list(evidence.glob("out_of_memory/reports/*/*/summary.txt"))


@pytest.mark.long
def test_the_transformer_counts_as_its_formula_says() -> None:
    import jax

    import jaxobs

    state = jax.eval_shape(lambda: initial_parameters(np.random.default_rng(0), SMALL))
    tokens = jax.ShapeDtypeStruct((SMALL.examples, SMALL.length + 1), "int32")
    cost = jaxobs.cost(train_step, state, tokens, SMALL)
    assert cost.rematerialized_flops == rematerialized_flops(SMALL)
    assert cost.matrix_flops - cost.rematerialized_flops == model_flops(SMALL)
    assert 3.0e8 < product_parameters(LARGE) < 3.1e8


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("n", 1.04, 1.0, relative=0.05), "right"),
        (Figure("n", 1.06, 1.0, relative=0.05), "WRONG"),
        (Figure("n", 102.0, 100.0, absolute=2.0), "right"),
        (Figure("n", 98.0, 100.0, absolute=0.0), "WRONG"),
        (Figure("n", 0.5, between=(0.4, 0.6)), "right"),
        (Figure("n", "nan", between=(0.0, 1.0)), "WRONG"),
        (Figure("n", "host", "host"), "right"),
        (Figure("n", 1.0), "shown"),
        (Figure("n", None, 1.0, note="no device"), "absent"),
    ],
)
def test_a_figure_is_right_within_its_tolerance_alone(figure: Figure, verdict: str) -> None:
    assert figure.verdict == verdict


def test_what_a_check_said_before_it_was_stopped_counts(tmp_path: Path) -> None:
    number: Any = np.float32(1.0)
    said = [Figure("first", number, 1.0), Figure("no number", float("nan"), 1.0, relative=0.1)]
    say(said, tmp_path)
    with (tmp_path / FIGURES).open("a") as file:
        file.write('{"figure": {"check"')
    assert verdicts(said_in(tmp_path)) == {"first": "right", "no number": "WRONG"}


def test_a_check_that_fails_or_hangs_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "plugins")]))
    checks = [
        Check("no_such_check", "no_such_file", 1, 30),
        Check("training", "training", 1, 0.3),
        Check("device", "device", 1, 60),
        Check("paired", "paired", 1e6, 1e6),
    ]
    began = time.monotonic()
    failed, stopped, ran, left_out = (said for _, said in run_all(checks, CPU, 5.0, tmp_path, began))
    assert [(one.found, one.verdict) for one in failed[:-1]] == [(1, "WRONG")]
    assert failed[0].note
    assert "stopped at its deadline" in stopped[-2].note
    assert [one.verdict for one in ran] == ["right", "shown", "absent", "right", "shown"]
    assert "were left" in left_out[0].note


def test_nvidia_smi_that_refuses_a_field_is_asked_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\ncase "$1" in\n'
        '  *no.such*) echo "Field \\"no.such\\" is not a valid field to query."; exit 2;;\n'
        '  --query-gpu=name) echo "NVIDIA H200";;\n'
        '  --query-gpu=power.draw) echo "[N/A]";;\n'
        '  *) echo "NVIDIA H200, [N/A]";;\nesac\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert machine.nvidia_smi(("name", "power.draw")) == {"name": "NVIDIA H200", "power.draw": "[N/A]"}
    assert machine.nvidia_smi(("name", "no.such")) == {"name": "NVIDIA H200"}
    assert machine.amount("[N/A]") is None
    assert machine.amount("699.75") == 699.75


def test_nvml_is_compared_reading_by_reading() -> None:
    row = {reading.field: "100" for reading in READINGS} | {"temperature.memory": "[N/A]"}
    page = [
        Sample(reading.metric, {**reading.labels, "device": "0"}, 100 * reading.scale)
        for reading in READINGS
        if reading.field != "power.draw"
    ]
    found = verdicts(compare([row] * 3, [page] * 2))
    assert len(found) == len(READINGS)
    assert found["jaxobs_nvidia_power_watts"] == "WRONG"  # nvidia-smi tells it
    assert found["jaxobs_nvidia_temperature_celsius memory"] == "shown"
    assert set(found.values()) == {"right", "WRONG", "shown"}


def test_every_check_is_a_function_of_its_file() -> None:
    for check in CHECKS:
        assert callable(
            getattr(importlib.import_module(f"benchmarks.gpu_check.checks.{check.file}"), check.name)
        )
