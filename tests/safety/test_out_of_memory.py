"""Memory runs out: a private report of what was known, and the job fails, goes on and ends exactly as without."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jaxobs.probe.out_of_memory import reporter
from jaxobs.probe.out_of_memory.evidence import Ask
from tests.jobs import Outcome, environment

PRELUDE = """
import os, sys
OBSERVED = bool(os.environ.pop("OBSERVED", ""))
if OBSERVED:
    import jaxobs
    obs = jaxobs.instrument()
import resource
import jax, jax.numpy as jnp

@jax.jit
def outer(x): return x[:, None] + x[None, :]
@jax.jit
def wide(x): return jnp.broadcast_to(x[:, None], (20_000, 20_000))  # on CPU this one fails within the call, as on a GPU
@jax.jit
def small(x): return x * 2

watched, wide = (obs.watch(outer), obs.watch(wide)) if OBSERVED else (outer, wide)
largest = [jnp.full((512, 1024), 1234.5678) for _ in range(8)]
others = [jnp.ones((3, 5)) for _ in range(2)]
small(jnp.ones(4)).block_until_ready()
if OBSERVED: obs.snapshot(60)  # the agent is up, as in a job that has run for a while
# Beyond what the process has by now: enough for Python, and for no array of 1.6 GB.
with open("/proc/self/statm") as file:
    limit = int(file.read().split()[0]) * resource.getpagesize() + 700 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
many = jnp.ones(20_000)
"""

FAIL = {
    "a watched call": "wide(many)",
    "a step that is no iteration": """
import contextlib
with obs.step() if OBSERVED else contextlib.nullcontext():
    outer(many).block_until_ready()
""",
    "a step of a loop": """
for turn in (obs.steps(range(3)) if OBSERVED else range(3)):
    small(jnp.ones(4)).block_until_ready()
    watched(many).block_until_ready()
""",
    "an error of its own": """
class Own(Exception):
    def __str__(self): raise ValueError("str")
    __repr__ = __str__
def train():
    try:
        watched(many).block_until_ready()
    except Exception as error:
        raise Own() from error
train()
""",
    "an eager operation": "keep = [jnp.ones((4 << 20,)).block_until_ready() for _ in range(1000)]",
}


def run(source: str, directory: Path, *, observed: bool = True, **settings: str) -> Outcome:
    command = [sys.executable, "-c", PRELUDE + source]
    done = subprocess.run(
        command,
        env=environment(
            OBSERVED="1" if observed else "", **{"JAXOBS_RUN_DIRECTORY": str(directory)} | settings
        ),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


@cache
def without_jaxobs(source: str) -> Outcome:
    """What a script prints and how it ends; each runs once."""
    return run(source, Path("unused"), observed=False)


def reports(directory: Path) -> list[Path]:
    return sorted(directory.glob("*/out-of-memory-*"))


def read(report: Path, part: str) -> Any:
    return json.loads((report / "report.json").read_text())[part]


def without_our_lines(stderr: str) -> str:
    """What the job's own standard error says."""
    lines = stderr.splitlines()
    return "\n".join(line for line in lines if not line.startswith("jaxobs: "))


@pytest.mark.parametrize("how", FAIL)
def test_the_error_is_as_without_and_a_report_is_there(how: str, tmp_path: Path) -> None:
    plain = without_jaxobs(FAIL[how])
    assert plain.status == 1
    observed = run(FAIL[how], tmp_path)
    assert observed.status == plain.status
    assert observed.stdout == plain.stdout
    assert without_our_lines(observed.stderr) == without_our_lines(plain.stderr)
    (report,) = reports(tmp_path)
    assert observed.stderr.count(str(report)) == 1
    assert ("out of memory in wide:" in observed.stderr) == (how == "a watched call")
    assert stat.S_IMODE(report.stat().st_mode) == 0o700
    arrays = read(report, "live_arrays")
    summary = (report / "summary.txt").read_text()
    if how != "an eager operation":  # which fills the memory with arrays of its own
        first = arrays["groups"][0]
        assert (first["shape"], first["dtype"], first["count"], first["bytes"]) == (
            "(512, 1024)", "float32", 8, 8 * 512 * 1024 * 4,
        )  # fmt: skip
        assert "<string>:" in first["line"]
        needs = {entry["function"]: entry["memory"] for entry in read(report, "executables")}
        function = "wide" if how == "a watched call" else "outer"
        assert needs[function]["output"] == 20_000 * 20_000 * 4
        peak = read(report, "memory_peaks")[0]
        assert (peak["function"], peak["output_bytes"]) == (function, 20_000 * 20_000 * 4)
        assert "largest buffers at the peak" in summary
        assert function in re.search("executable (.*)", summary)[1]  # type: ignore[index]  # it is there
        assert "Out of memory allocating 1600000000 bytes" in summary
    assert "float32 (512, 1024)" in summary
    assert "Out of memory" in (report / "error.txt").read_text()
    assert read(report, "settings")["run_folder"] == str(report.parent)
    assert read(report, "process")["run_seconds"]
    assert (report / "allocations.pprof").read_bytes()[:2] == b"\x1f\x8b"  # pprof files are gzipped


def test_an_unwatched_step_of_several_outputs_is_named_and_what_got_no_memory_is_not_alive(
    tmp_path: Path,
) -> None:
    source = """
@jax.jit
def train_step(x): return x * 3, x[:, None] + x[None, :]
kept, wide = train_step(many)
jax.block_until_ready((kept, wide))
"""
    assert run(source, tmp_path).status == 1
    (report,) = reports(tmp_path)
    summary = (report / "summary.txt").read_text()
    assert "perhaps train_step" in re.search("executable (.*)", summary)[1]  # type: ignore[index]  # it is there
    arrays = read(report, "live_arrays")
    assert arrays["without_memory"]["count"] >= 1
    assert arrays["without_memory"]["bytes"] >= 20_000 * 20_000 * 4
    assert "(20000, 20000)" not in {group["shape"] for group in arrays["groups"]}
    assert "got no memory" in summary


def test_no_value_of_an_array_is_in_the_report(tmp_path: Path) -> None:
    run("obs.record(loss=1234.5678)\n" + FAIL["a watched call"], tmp_path)
    (report,) = reports(tmp_path)
    assert not [file.name for file in report.iterdir() if b"1234.5" in file.read_bytes()]


def test_a_job_that_catches_the_error_goes_on(tmp_path: Path) -> None:
    source = """
for attempt in range(5):
    try:
        wide(many)
    except Exception as error:
        caught = error
        print(type(error).__name__, error, error.__cause__, error.__context__, vars(error))
print(small(jnp.ones(4)).sum())
"""
    plain = run(source, tmp_path, observed=False)
    observed = run(source, tmp_path)
    assert (observed.status, observed.stdout) == (plain.status, plain.stdout)
    assert observed.status == 0
    assert len(reports(tmp_path)) == 3  # and no more: a job may try again for days


def test_other_errors_make_no_report(tmp_path: Path) -> None:
    source = """
try: watched(jnp.ones((2, 2, 2)), 3)
except TypeError: pass
try:
    with obs.step(): raise RuntimeError("memory of better days")
except RuntimeError: pass
class Odd(Exception): __module__ = None
try:
    with obs.step(): raise Odd
except Odd: pass
raise KeyError("of the user")
"""
    outcome = run(source, tmp_path)
    assert outcome.status == 1
    assert "out of memory" not in outcome.stderr
    assert reports(tmp_path) == []


def test_what_a_signal_handler_raises_during_the_report_reaches_the_user(tmp_path: Path) -> None:
    source = """
import signal
class Alarm(Exception): pass
def rings(number, frame): raise Alarm
signal.signal(signal.SIGALRM, rings)
jax.profiler.device_memory_profile = lambda: signal.raise_signal(signal.SIGALRM)
try: wide(many)
except Alarm as error: print("Out of memory" in str(error.__context__))
"""
    outcome = run(source, tmp_path)
    assert (outcome.status, outcome.stdout) == (0, "True\n"), outcome.stderr
    assert reports(tmp_path) == []


def test_the_setting_switches_reports_off(tmp_path: Path) -> None:
    assert run(FAIL["a watched call"], tmp_path, JAXOBS_OUT_OF_MEMORY_REPORTS="0").status == 1
    assert reports(tmp_path) == []


@pytest.mark.parametrize("why", ["nothing is kept", "it cannot be written"])
def test_where_the_run_has_no_folder_the_report_is_in_the_systems_temporary_directory(
    why: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no directory")
    plain = without_jaxobs(FAIL["a watched call"])
    nothing_kept = {"JAXOBS_RUN_DIRECTORY": "", "JAXOBS_KEEP_RUNS": "0"} if why == "nothing is kept" else {}
    observed = run(
        FAIL["a watched call"], tmp_path / "file", observed=True, TMPDIR=str(tmp_path), **nothing_kept
    )
    assert observed.status == plain.status
    assert without_our_lines(observed.stderr) == without_our_lines(plain.stderr)
    (report,) = tmp_path.glob("jaxobs-out-of-memory-process*")
    assert str(report) in observed.stderr
    assert (report / "summary.txt").exists()


def test_where_no_report_can_be_written_that_is_one_line_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setattr(reporter, "temporary_directory", lambda: None)
    lines: list[str] = []
    settings = {
        "out_of_memory_reports": 1, "run_folder": str(tmp_path / "file" / "run"), "run_directory": str(tmp_path / "file")
    }  # fmt: skip
    reports = reporter.OutOfMemory("job", settings, Ask(lambda _: {}, tuple), lines.append)
    reports.failed(MemoryError("no room"))
    (line,) = lines
    assert line.startswith("out of memory; no report could be written: FileNotFoundError: ")
    assert line.endswith("the system has no temporary directory: set JAXOBS_RUN_DIRECTORY")


def test_where_memory_is_short_for_the_report_too_the_disk_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: object) -> None:
        raise MemoryError("of the report itself")

    monkeypatch.setattr(reporter, "make_folder", short)
    lines: list[str] = []
    settings = {"out_of_memory_reports": 1, "run_folder": str(tmp_path)}
    reports = reporter.OutOfMemory("job", settings, Ask(lambda _: {}, tuple), lines.append)
    reports.failed(MemoryError("no room"))
    (line,) = lines
    assert line == "out of memory; no report could be written: MemoryError: of the report itself"


def test_an_error_whose_type_tells_no_module_is_not_taken_for_one_of_memory() -> None:
    kind = eval("type('Strange', (Exception,), {})", {"__builtins__": {"type": type, "Exception": Exception}})
    assert not hasattr(kind, "__module__")
    lines: list[str] = []
    reports = reporter.OutOfMemory(
        "job", {"out_of_memory_reports": 1}, Ask(lambda _: {}, tuple), lines.append
    )
    reports.failed(kind("the user's own"))
    assert lines == []


@pytest.mark.parametrize("observed", [False, True])
def test_jaxobs_run_reports_as_well(observed: bool, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PRELUDE + "outer(many).block_until_ready()")
    launcher = ["-m", "jaxobs", "run", "--"] if observed else []
    done = subprocess.run(
        [sys.executable, *launcher, str(script)],
        env=environment(JAXOBS_RUN_DIRECTORY=str(tmp_path), JAX_PROCESS_ID="2", JAX_NUM_PROCESSES="4", JAXOBS_RUN="demo"),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    where = [line for line in done.stderr.splitlines() if line.startswith("  File")]
    assert len(where) == 1  # nothing of jaxobs on the stack
    assert "RuntimeError: " in done.stderr
    assert "Out of memory allocating 1600000000 bytes" in done.stderr
    made = reports(tmp_path)
    assert len(made) == observed
    if observed:
        assert made[0].parent.name.startswith("demo-rank2-")
        assert "perhaps outer, " in (made[0] / "summary.txt").read_text()


def test_the_report_keeps_to_its_time_though_the_agent_is_stopped(tmp_path: Path) -> None:
    source = """
import psutil, time
agent = psutil.Process(obs.snapshot(60)["agent"]["pid"])
agent.suspend()
began = time.monotonic()
try: wide(many)
except Exception: print(time.monotonic() - began)
agent.resume()
"""
    outcome = run(source, tmp_path)
    assert outcome.status == 0, outcome.stderr
    assert float(outcome.stdout) < 6.0
    (report,) = reports(tmp_path)
    summary = (report / "summary.txt").read_text()
    assert re.search("process +not there: LookupError: the agent did not answer", summary)
    assert {entry["function"] for entry in read(report, "executables")} == {"wide", "small"}
    assert "what was asked for is its output" in summary
    assert read(report, "live_arrays")["count"]
