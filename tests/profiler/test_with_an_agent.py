"""The probe in a whole job: with its agent, asked from both sides, and at the end of the process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import environment
from tests.profiler.jax_versions import SEES_A_CPU, sees_a_cpu

TRAINS = """
import os, sys, time, json
import jax, jax.numpy as jnp
import jaxobs
obs = jaxobs.instrument(prometheus=False, interval=0.1)
step = obs.watch(jax.jit(lambda x: jnp.tanh(x @ x) * 1e-3))
x = jnp.ones((64, 64))
def train(seconds):
    until = time.monotonic() + seconds
    for _ in obs.steps(iter(lambda: time.monotonic() < until, False)):
        step(x).block_until_ready()
        time.sleep(0.002)  # else 10 000 steps a second, and a busy machine writes their lines later than the test looks
train(0.3)
"""


def run(script: str, tmp_path: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", TRAINS + script]
    return subprocess.run(
        command,
        env=environment(**settings),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "end",
    [
        "",
        "raise SystemExit(3)",
        "obs.shutdown()",
        "import threading; threading.Timer(0.3, lambda: obs.shutdown(0.1)).start(); train(0.5)",
    ],
)
def test_a_job_may_end_in_the_middle_of_a_window(tmp_path: Path, end: str) -> None:
    script = "obs._side.sources.begin_profile(20.0, False); train(0.3); print('done', flush=True)\n" + end
    done = run(script, tmp_path)
    assert (done.returncode, done.stdout) == (3 if "SystemExit" in end else 0, "done\n")
    if SEES_A_CPU:  # older profilers write to the console
        assert done.stderr == ""


@sees_a_cpu
def test_windows_are_seen_in_the_snapshot_in_metrics_and_as_spans(tmp_path: Path) -> None:
    script = """
import threading
answers = []
asking = threading.Thread(target=lambda: answers.append(obs.profile(0.1, keep="kept")))
asking.start(); train(1.0); asking.join()
from jaxobs.flow import wire
obs._messages.heard(wire.PROFILE, (0.1, True))
train(1.0)
with jax.profiler.trace("theirs"):
    train(0.1)
train(1.0)
print(json.dumps(answers[0]))
"""
    settings = {"JAXOBS_JSONL_DIRECTORY": str(tmp_path), "JAXOBS_RUN_DIRECTORY": str(tmp_path / "asked")}
    settings["JAXOBS_SHUTDOWN_TIMEOUT"] = "60"  # the agent runs at low priority, and the machine may be busy
    done = run(script, tmp_path, **settings)
    assert done.returncode == 0, done.stderr
    outcome, path, reason = json.loads(done.stdout)
    assert (outcome, reason) == ("read", "")
    assert Path(path).is_relative_to(tmp_path / "kept")
    (lines,) = tmp_path.glob("*.jsonl")
    told: list[dict[str, Any]] = [json.loads(line) for line in lines.read_text().splitlines()]
    windows = [record for record in told if record.get("kind") in ("requested", "user")]
    assert [(record["kind"], record["outcome"]) for record in windows] == [
        ("requested", "read"),
        ("requested", "read"),
        ("user", "read"),
    ]
    assert all(Path(record["path"]).exists() for record in windows)
    assert Path(windows[1]["path"]).is_relative_to(tmp_path / "asked")


def test_wrong_arguments_are_refused_at_the_call_and_profiling_goes_on(tmp_path: Path) -> None:
    script = """
for seconds in ("x", 0, -1, float("nan"), 61, None):
    try:
        obs.profile(seconds)
    except ValueError as error:
        print(error)
try:
    obs.profile(0.1, keep=3)
except TypeError:
    print("keep")
pathlib.Path("file").write_text("")
for _ in range(6):
    refused = obs.profile(0.1, keep="file/below")
print(refused.outcome, refused.reason)
print(obs._side.sources.begin_profile(0.05, False).result(30).outcome)
"""
    done = run("import pathlib\n" + script, tmp_path)
    assert done.returncode == 0, done.stderr
    wrong = [
        f"seconds={given} is not above 0 and at most 60" for given in ("'x'", "0", "-1", "nan", "61", "None")
    ]
    *said, kept, outcome = done.stdout.splitlines()
    assert said == [*wrong, "keep"]
    assert kept.startswith(f"failed no trace could be kept in {tmp_path / 'file' / 'below'}: Not a directory")
    assert outcome in {"read", "empty"}
    assert "failed" not in done.stderr


def test_before_and_after_there_is_anything_to_profile_the_answer_says_so(tmp_path: Path) -> None:
    script = """
obs.shutdown()
print(obs.profile(0.1).reason)
"""
    done = run(script, tmp_path)
    assert (done.returncode, done.stdout) == (0, "the observer has ended\n")


def test_no_window_is_begun_once_the_main_thread_has_ended(tmp_path: Path) -> None:
    done = run("import threading\nthreading.Thread(target=train, args=(4.5,)).start()\n", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
