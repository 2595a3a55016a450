"""A job without a home, with full and read-only disks, with links planted where files are written, and hanging files."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.beside import free_port
from jaxobs.model.clock import ClockAnchor, monotonic
from jaxobs.probe.out_of_memory.reporter import write_report
from jaxobs_plugins.jsonl import JsonLinesExporter, _file_name
from jaxobs_plugins.probes.profiler.windows import write_trace
from tests.jobs import environment

TRAINS = """
import pwd
try:
    pwd.getpwuid(os.getuid())
except KeyError:
    print("nobody")
print(os.environ.get("HOME"))
import jax, jaxobs
obs = jaxobs.instrument(interval=0.1)
step = obs.watch(jax.jit(lambda x: x + 1))
for _ in obs.steps(range(20)):
    step(1.0)
deadline = time.monotonic() + 30
while (obs.snapshot(5.0)["loops"] or {}).get("train", {}).get("steps") != 20:
    assert time.monotonic() < deadline
found = obs.snapshot(60)
import urllib.request
while b'jaxobs_steps_total{loop="train"} 20.0' not in urllib.request.urlopen(obs.address).read():
    assert time.monotonic() < deadline  # an exporter shows a snapshot on a thread of its own
    time.sleep(0.01)
print([name for name, source in found["sources"].items() if not source["up"] and source["failures"]])
print(jaxobs.cost(lambda x: x @ x, jax.numpy.ones((8, 8))).matrix_flops)
"""


def as_nobody() -> list[str]:
    """What runs a command as a user without an entry in the password file, and who may read what this one may."""
    command = ["unshare", "--user", "--map-user=12345"]
    done = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no user without an entry can be had here: {done.stderr.strip()}")
    return command


@pytest.mark.fault(44)
@pytest.mark.parametrize(
    "home",
    [
        pytest.param(None, id="unset"),
        pytest.param("/proc", id="read-only", marks=pytest.mark.slow),
        pytest.param("/nowhere", id="missing", marks=pytest.mark.slow),
    ],
)
def test_without_a_home_that_can_be_used_everything_works(home: str | None) -> None:
    who = as_nobody() if home is None else []
    variables = environment(**({} if home is None else {"HOME": home}))
    variables = variables if home else {n: v for n, v in variables.items() if n != "HOME"}
    variables.pop("XDG_CACHE_HOME", None)
    done = subprocess.run(
        [*who, sys.executable, "-c", "import os, sys, time" + TRAINS],
        env=variables, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    said = (["nobody"] if who else []) + [str(home), "[]", "1024.0"]
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, said, "")
    for command, status in ((["plugins"], 0), (["check"], {0, 1})):
        done = subprocess.run(
            [*who, sys.executable, "-m", "jaxobs", *command],
            env=variables, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode in (status if isinstance(status, set) else {status}), done.stderr
        assert "Traceback" not in done.stdout + done.stderr


FILLS = """
import jaxobs
obs = jaxobs.instrument(interval=0.1)
deadline = time.monotonic() + 30
steps = 0
while True:
    for _ in obs.steps(range(200)): steps += 1
    found = obs.snapshot(60)
    if found["sources"] and not found["sources"]["jsonl"]["up"]:
        why = found["sources"]["jsonl"]["reason"]
        break
    assert time.monotonic() < deadline, found["sources"]
for _ in obs.steps(range(200)): steps += 1
time.sleep(0.3)
found = obs.snapshot(60)
dropped, up = found["sources"]["jsonl"]["dropped"] > 0, found["sources"]["prometheus"]["up"]
print(found["loops"]["train"]["steps"] == steps, dropped, up, why)
"""


@pytest.mark.fault(26)
@pytest.mark.parametrize(("options", "reason"), [("size=64k", errno.ENOSPC), ("ro", errno.EROFS)])
def test_on_a_disk_that_is_full_or_read_only_one_exporter_is_down_and_training_goes_on(
    start: Callable[..., Any], small_disk: Callable[[str], Path], options: str, reason: int
) -> None:
    lines = small_disk(options) / "lines"
    outcome = start(FILLS, observed=False, JAXOBS_JSONL_DIRECTORY=str(lines)).end()
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.startswith("True True True ")
    assert os.strerror(reason) in outcome.stdout
    assert all(line.startswith("jaxobs: exporter jsonl") for line in outcome.stderr.splitlines())
    assert 1 <= len(outcome.stderr.splitlines()) <= 2


LEAVES = """
import jaxobs
obs = jaxobs.instrument(interval=0.1)
import jax
jax.jit(lambda x: x + 1)(1.0)
while obs.address is None: time.sleep(0.1)
for _ in obs.steps(range(5)): pass
obs.snapshot(60)
print("training", flush=True)
time.sleep(60)
"""


@pytest.mark.fault(45)
def test_links_planted_where_a_job_leaves_files_are_not_followed(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    """The address of the job for every process that comes next, the last summary by its rank."""
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir(mode=0o777)
    victim.write_text("precious")
    host = re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())
    last, port = int(Path("/proc/sys/kernel/ns_last_pid").read_text()), free_port()
    for number in range(last, last + 1000):
        (shared / f"jaxobs-{host}-{number}-{port}.json").symlink_to(victim)
    summary = shared / "jaxobs-run-rank3-killed.txt"  # where no run is kept
    summary.symlink_to(victim)
    job = start(
        LEAVES, observed=False, JAXOBS_FILE_SD_DIRECTORY=str(shared), TMPDIR=str(shared), JAXOBS_KEEP_RUNS="0",
        JAXOBS_RUN="run", RANK="3", WORLD_SIZE="4", JAXOBS_METRICS_PORT=str(port),
    )  # fmt: skip
    job.wait_for("training")
    agent = job.agent()
    address = shared / f"jaxobs-{host}-{agent.process.pid}-{port}.json"
    assert agent.process.pid in range(last, last + 1000)  # a link was planted there
    deadline = (
        time.monotonic() + 40
    )  # it first removes what the dead have left, which all these links seem to be
    while not address.exists() or address.is_symlink():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "targets" in address.read_text()
    job.process.kill()
    job.end()
    assert agent.is_gone_within(60)
    assert not summary.is_symlink()
    assert summary.read_text().startswith("The job ended without a word")
    assert victim.read_text() == "precious"


@pytest.mark.fault(45)
def test_links_planted_where_reports_traces_and_events_are_kept_are_not_followed(tmp_path: Path) -> None:
    victim, elsewhere = tmp_path / "victim", tmp_path / "elsewhere"
    victim.write_text("precious")
    elsewhere.mkdir()
    moment = time.time()
    for ahead in range(30):  # seconds, which are in the names
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(moment + ahead))
        (tmp_path / f"out-of-memory-{stamp}").symlink_to(elsewhere)
    settings = {"run_folder": str(tmp_path), "run_directory": str(tmp_path.parent)}
    report = write_report(settings, "job", {"report.txt": b"memory"}, monotonic() + 10)
    assert report.parent == tmp_path
    assert not report.is_symlink()
    assert (report / "report.txt").read_bytes() == b"memory"

    folder = tmp_path / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M", time.gmtime(moment))
    folder.mkdir(parents=True)
    (folder / "rank_00000.xplane.pb").symlink_to(victim)
    trace = Path(write_trace(str(tmp_path), 0, b"trace", moment))
    assert (trace.is_symlink(), trace.read_bytes()) == (False, b"trace")

    agent: Any = SimpleNamespace(
        settings={"jsonl_directory": str(tmp_path)}, resource={}, clock=ClockAnchor.read(), catalogue=None
    )
    (tmp_path / _file_name(agent)).symlink_to(victim)
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        JsonLinesExporter().start(agent)
    assert victim.read_text() == "precious"
    assert list(elsewhere.iterdir()) == []


HANGS = """
import jaxobs
obs = jaxobs.instrument(interval=0.1)
while obs.address is None: time.sleep(0.1)
print(obs.address, flush=True)
sys.stdin.readline()
for _ in obs.steps(range(5)): pass
print("trained", flush=True)
sys.stdin.readline()
"""


@pytest.mark.fault(46)
def test_where_the_token_file_of_a_job_becomes_one_that_hangs_its_page_goes_on(
    start: Callable[..., Any], page: Callable[..., str], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("a" * 40)
    job = start(HANGS, observed=False, reads=True, JAXOBS_METRICS_TOKEN_FILE=str(token))
    address, bearer = job.process.stdout.readline().strip(), {"Authorization": f"Bearer {'a' * 40}"}
    page(address, 'jaxobs_source_up{source="prometheus"} 1.0', **bearer)
    token.unlink()
    os.mkfifo(token)
    job.say("train")
    job.wait_for("trained")
    page(address, 'jaxobs_steps_total{loop="train"} 5.0', **bearer)
    job.say("leave")
    outcome = job.end()
    assert outcome.status == 0
    assert str(token) in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1
