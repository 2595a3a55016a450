"""Jobs that end while an endpoint is slow, silent, dead or refuses; and jobs that are killed: what is lost is said."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import Agent
from tests.waiting import wait_for

TRAINS = """
import atexit
import jax
step = jax.jit(lambda x: x + 1)
if OBSERVED:
    step = obs.watch(step)
    atexit.unregister(obs._at_exit)
    atexit.register(lambda: print(obs.final_snapshot, flush=True))
    atexit.register(obs._at_exit)  # which runs before it
for turn in obs.steps(range(40)) if OBSERVED else range(40):
    x = jax.numpy.ones(turn % 8 + 1)  # compiles: each is a span
    step(x).block_until_ready()
    time.sleep(0.02)
    if turn == 30:
        print("under way", flush=True)
"""


@pytest.fixture
def endpoint(request: pytest.FixtureRequest, receiver: Any, black_hole: str, refusing: str) -> dict[str, str]:
    """The variables that name an endpoint of the temper that the test asks for."""
    answers: dict[str, Callable[..., Any]] = {
        "slow": lambda path, message: (time.sleep(3), (200, {}, b""))[1],
        "413": lambda path, message: (413, {}, b""),
        "503": lambda path, message: (503, {"Retry-After": "30"}, b""),
        "400": lambda path, message: (400, {}, b""),
    }
    receiver.answer = answers.get(request.param, receiver.answer)
    url = {"black hole": black_hole, "dead": refusing}.get(request.param, receiver.endpoint)
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "200", "OTEL_METRIC_EXPORT_INTERVAL": "200",
    }  # fmt: skip


LOST = r"(\d+) (?:(?:events and )?spans|data points)"
"""What had not begun to be sent is in events, and where only metrics were lost there are no spans."""


def ended(job: Any) -> tuple[Any, Any]:
    """How the process and its output ended, and its agents."""
    job.wait_for("under way")
    agents = job.agents()
    outcome = job.end()
    return outcome, agents


@pytest.mark.slow
@pytest.mark.fault(7, 8, 9, 31, 32)
@pytest.mark.parametrize("endpoint", ["black hole", "slow", "dead", "413", "503", "400"], indirect=True)
def test_with_an_endpoint_of_any_temper_a_job_ends_and_says_what_was_lost(
    start: Callable[..., Any], endpoint: dict[str, str]
) -> None:
    """How much later it ends is measured by `make benchmark NAME=exit_seconds`."""
    outcome, agents = ended(start(TRAINS, **endpoint))
    assert outcome.status == 0
    assert len(agents) == 1
    said = [line for line in outcome.stderr.splitlines() if re.search(rf"exporter otel: .*{LOST}", line)]
    assert said, outcome.stderr
    assert int(re.findall(LOST, said[-1])[0]) > 0
    assert all(line.startswith("jaxobs: ") for line in outcome.stderr.splitlines()), outcome.stderr
    assert re.search(rf"otel.*{LOST}", outcome.stdout.replace("\n", " ")), outcome.stdout
    assert Agent(agents[0]).is_gone_within(60)


FOREVER = """
import logging, signal
logging.basicConfig(level=logging.INFO, format="%(message)s")
obs = jaxobs.instrument(interval=0.1)
import jax
logging.getLogger("jax").setLevel(logging.WARNING)
step = obs.watch(jax.jit(lambda x: x + 1))
while obs.address is None: time.sleep(0.1)
for _ in obs.steps(range(40)):
    step(1.0)
obs.snapshot(60)
print("training", flush=True)
for _ in obs.steps(iter(int, 1)):
    step(1.0)
    time.sleep(0.01)
    if os.path.exists(os.environ["LEAVES"]): os.environ["HOW"] == "abort" and os.abort() or os._exit(5)
"""

ENDINGS = {"SIGTERM": signal.SIGTERM, "SIGKILL": signal.SIGKILL, "abort": signal.SIGABRT, "_exit": -5}


@pytest.mark.fault(47)
@pytest.mark.parametrize("how", ENDINGS)
def test_the_last_summary_of_a_job_that_is_killed_is_left_in_a_file_which_the_log_has_named(
    start: Callable[..., Any], tmp_path: Path, how: str
) -> None:
    (tmp_path / "file").touch()
    elsewhere = {
        "SIGTERM": {"JAXOBS_KEEP_RUNS": "0"},
        "abort": {"JAXOBS_RUN_DIRECTORY": str(tmp_path / "file" / "runs")},
    }
    places = {"TMPDIR": str(tmp_path)} | elsewhere.get(how, {"JAXOBS_RUN_DIRECTORY": str(tmp_path)})
    leaves = tmp_path / "leaves"
    job = start("import jaxobs\n" + FOREVER, observed=False, HOW=how, LEAVES=str(leaves), **places)
    job.wait_for("training")
    agent = job.agent()
    if how.startswith("SIG"):
        job.process.send_signal(ENDINGS[how])
    else:
        leaves.touch()
    outcome = job.end()
    assert outcome.status == -ENDINGS[how]
    (said,) = re.findall(r"if the job is killed its last summary is in (\S+)", outcome.stderr)
    file = Path(said)
    if how in elsewhere:  # nothing of the run is kept, or it cannot be
        assert file == tmp_path / f"jaxobs-process{job.process.pid}-killed.txt"
    else:
        assert (file.parent.parent, file.name) == (tmp_path, "killed.txt")
    text = wait_for(file.read_text, str(file))
    assert text.startswith(
        "The job ended without a word: it was killed, ended by os._exit, or had no time for one.\n"
    )
    assert "train" in text
    assert file.stat().st_mode & 0o777 == 0o600
    assert agent.is_gone_within(60)


SNAPSHOTS = """
import jaxobs
obs = jaxobs.instrument()
while obs.address is None: time.sleep(0.1)
for _ in obs.steps(range(5)): pass
for _ in range(2_000):
    obs.snapshot(0.0005)
began = time.monotonic()
print(obs.snapshot(60)["loops"]["train"]["steps"], time.monotonic() - began < 4.5)
began = time.monotonic()
obs.shutdown()
print(time.monotonic() - began < 4.5)
"""


@pytest.mark.fault(51)
def test_snapshots_that_nobody_waits_for_any_more_are_not_made(start: Callable[..., Any]) -> None:
    job = start(SNAPSHOTS, observed=False)
    outcome = job.end()
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "5 True\nTrue\n", "")
    deadline = time.monotonic() + 8.0  # not as long as 2 000 answers take
    while job.agents():
        assert time.monotonic() < deadline, "the agent still answers requests of a job that is over"
        time.sleep(0.05)
