"""A script that uses JAX, unchanged, under `jaxobs run` and under `opentelemetry-instrument`."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxobs.cli.launch.observe import NOTHING
from tests.cli.launched import JAXOBS, environment, jaxobs, outcome, without_summary
from tests.jobs import Outcome

CONFIGURES = """
import jax, jax.numpy as jnp, socket
jax.config.update('jax_enable_x64', True)
if hasattr(jax.config, 'jax_num_cpu_devices'):
    jax.config.update('jax_num_cpu_devices', 3)
with socket.socket() as free:
    free.bind(('localhost', 0))
    port = free.getsockname()[1]
jax.distributed.initialize(f'localhost:{port}', num_processes=1, process_id=0)
print(jax.device_count(), jax.process_count(), jnp.arange(3.0).sum().dtype, flush=True)
print(jax.jit(lambda x: x * 1.1)(jnp.arange(4.0)), jax.config.jax_explain_cache_misses)
"""

RAISES = """
import jax, jax.numpy as jnp
@jax.jit
def product(x):
    return x @ x
print(product(jnp.ones((64, 64))).sum())
@jax.jit
def broken(x):
    raise ValueError('inside the trace')
broken(1.0)
"""

OBSERVES_ITSELF = "import jaxobs; jaxobs.instrument()"

FORBIDS = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("jaxobs"):
            raise {kind}(name)
sys.meta_path.insert(0, Finder())
import jax
print(float(jax.jit(lambda x: x + 1)(1.0)))
"""

ONLY_IMPORTS = "import jax; print(jax.__version__)"

PATIENT = {"OTEL_EXPORTER_PROMETHEUS_PORT": "0", "JAXOBS_SHUTDOWN_TIMEOUT": "20"}
"""For scripts that end while their agent is still starting: a busy machine needs more than the default for it."""


INTERRUPTED = """\
import jax, os, signal, time
jax.jit(lambda x: x + 1)(1.0).block_until_ready()
os.kill(os.getpid(), signal.SIGINT)
time.sleep(10)
"""


@pytest.mark.parametrize(
    "source", [CONFIGURES, RAISES, INTERRUPTED], ids=["configures", "raises", "interrupted"]
)
def test_the_script_and_its_jax_are_as_without(tmp_path: Path, source: str) -> None:
    (tmp_path / "script.py").write_text(source)
    plain = outcome([sys.executable, "script.py"], tmp_path)
    observed = jaxobs("run", "script.py", folder=tmp_path, OTEL_EXPORTER_PROMETHEUS_PORT="0")
    assert without_summary(observed) == plain


def test_the_summary_tells_what_was_compiled_also_when_the_script_raised(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(RAISES)
    observed = jaxobs("run", "script.py", folder=tmp_path, **PATIENT)
    assert observed.status == 1
    summary = observed.stderr.partition("\njaxobs: ")[2]
    assert re.search(r"^product +1 ", summary, re.MULTILINE), observed.stderr
    # 2 · 64³ floating operations, a multiply and an add each.
    assert re.search(r"^product +[0-9a-f]{8} .* 524 k ", summary, re.MULTILINE), observed.stderr
    assert "\x1b" not in summary


def test_a_script_that_begins_to_observe_before_it_imports_jax_has_its_functions_watched(
    tmp_path: Path,
) -> None:
    calls = "for _ in range(2500): product(jax.numpy.ones((64, 64))).block_until_ready()"
    jitted = "product = jax.jit(lambda x: x @ x)"
    (tmp_path / "script.py").write_text(f"{OBSERVES_ITSELF}\nimport jax\n{jitted}\n{calls}\n")
    observed = jaxobs("run", "script.py", folder=tmp_path, **PATIENT)
    assert re.search(r"^<lambda> +[0-9a-f]{8} +2,500 ", observed.stderr, re.MULTILINE), observed.stderr


@pytest.mark.parametrize(
    "first", [OBSERVES_ITSELF, f"import jax; {OBSERVES_ITSELF}"], ids=["before jax", "after jax"]
)
def test_a_script_that_observes_itself_can_configure_its_jax_afterwards(tmp_path: Path, first: str) -> None:
    (tmp_path / "plain.py").write_text(CONFIGURES)
    (tmp_path / "script.py").write_text(f"{first}\n{CONFIGURES}")
    plain = outcome([sys.executable, "plain.py"], tmp_path)
    observed = jaxobs("run", "--", "script.py", folder=tmp_path, OTEL_EXPORTER_PROMETHEUS_PORT="0")
    assert plain.status == 0, plain.stderr
    assert plain.stdout.splitlines()[0] == "3 1 float64"
    assert without_summary(observed) == plain


def test_the_summary_goes_to_what_the_script_has_put_in_the_place_of_standard_error(tmp_path: Path) -> None:
    wrapped = (
        "class Tee:\n    def __init__(self): self.write, self.flush = sys.stderr.write, sys.stderr.flush\n"
    )
    (tmp_path / "script.py").write_text(f"import sys\n{wrapped}sys.stderr = Tee()\n{ONLY_IMPORTS}")
    observed = jaxobs("run", "script.py", folder=tmp_path)
    assert (observed.status, observed.stderr) == (0, f"{NOTHING}\n")
    (tmp_path / "script.py").write_text(f"import sys\n{wrapped}sys.stderr = Tee()\n{RAISES}")
    observed = jaxobs("run", "script.py", folder=tmp_path, **PATIENT)
    assert "atexit" not in observed.stderr
    assert re.search(r"^product +1 ", observed.stderr, re.MULTILINE), observed.stderr


def test_without_a_backend_nothing_is_started(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        f"{ONLY_IMPORTS}\nimport os; print(len(os.listdir('/proc/self/task')))"
    )
    plain = outcome([sys.executable, "script.py"], tmp_path)
    observed = jaxobs("run", "script.py", folder=tmp_path)
    assert (observed.status, observed.stdout) == (plain.status, plain.stdout)
    assert observed.stderr == f"{NOTHING}\n"


def test_of_several_that_a_launcher_started_the_first_alone_prints(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import jax; jax.jit(lambda x: x + 1)(1.0)")
    step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    second = jaxobs("run", "script.py", folder=tmp_path, SLURM_PROCID="1", **step)
    assert (second.status, second.stderr) == (0, "")
    first = jaxobs("run", "script.py", folder=tmp_path, SLURM_PROCID="0", **step)
    assert (first.status, "jaxobs: " in first.stderr) == (0, True)


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_script_without_jax_runs_no_module_beside_it_that_it_does_not_import(
    tmp_path: Path, rank: str
) -> None:
    (tmp_path / "script.py").write_text("print('mine')")
    for name in ("uuid", "socket", "pwd", "dataclasses", "urllib", "contextlib"):
        (tmp_path / f"{name}.py").write_text(f"print('{name} was run')")
    observed = jaxobs("run", "script.py", folder=tmp_path, RANK=rank, WORLD_SIZE="2")
    assert (observed.status, observed.stdout) == (0, "mine\n")
    assert observed.stderr == (f"{NOTHING}\n" if rank == "0" else "")


@pytest.mark.parametrize("kind", ["ImportError", "SystemExit"])
def test_where_the_script_forbids_later_imports_it_runs_unobserved(tmp_path: Path, kind: str) -> None:
    (tmp_path / "script.py").write_text(FORBIDS.format(kind=kind))
    observed = jaxobs("run", "script.py", folder=tmp_path)
    assert (observed.status, observed.stdout) == (0, "2.0\n"), observed.stderr
    why = "JAX could not be observed; the log says why"
    assert observed.stderr == f"jaxobs: cannot observe jax: {kind}\njaxobs: no summary: {why}\n"


NO_PROBE = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "jaxobs_plugins.probes.compile":
            raise ImportError(name)
sys.meta_path.insert(0, Finder())
"""

NO_SOCKETS = """
import socket
def refuse(*_, **__): raise OSError("no sockets")
socket.socketpair = refuse
"""


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("import os; os.environ['JAXOBS_ENABLED'] = '0'", "jaxobs is switched off (JAXOBS_ENABLED)"),
        ("import os; os.environ['OTEL_SDK_DISABLED'] = 'true'", "jaxobs is switched off (OTEL_SDK_DISABLED)"),
        ("import os; os.environ['JAXOBS_INTERVAL'] = 'x'", "JAX could not be observed; the log says why"),
        ("import sys; sys.frozen = True", "no agent is there; the log says why"),
        (NO_SOCKETS, "nothing is observed: no sockets"),
        (
            NO_PROBE,
            "the probe that sees compiles failed: ImportError: jaxobs_plugins.probes.compile",
        ),
    ],
    ids=["off", "otel off", "wrong setting", "no agent", "no sockets", "no probe"],
)
def test_the_closing_line_says_why_jax_was_not_observed(tmp_path: Path, first: str, why: str) -> None:
    (tmp_path / "script.py").write_text(f"{first}\nimport jax; print(jax.jit(lambda x: x + 1)(1.0))\n")
    observed = jaxobs("run", "script.py", folder=tmp_path)
    assert (observed.status, observed.stdout) == (0, "2.0\n"), observed.stderr
    assert observed.stderr.splitlines()[-1] == f"jaxobs: no summary: {why}"


def test_a_backend_that_has_compiled_nothing_is_not_denied(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import jax, numpy; print(jax.device_put(numpy.ones(2)))")
    observed = jaxobs("run", "script.py", folder=tmp_path)
    assert (observed.status, observed.stdout) == (0, "[1. 1.]\n")
    assert observed.stderr == f"{NOTHING}\n"
    assert "JAX compiled nothing" in NOTHING


def opentelemetry_instrument(folder: Path, **settings: str) -> Outcome:
    """What becomes of `script.py` under that launcher, without exporters of OpenTelemetry's own."""
    launcher = Path(sys.executable).with_name("opentelemetry-instrument")
    return outcome(
        [str(launcher), sys.executable, "script.py"], folder, OTEL_TRACES_EXPORTER="none",
        OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none", OTEL_EXPORTER_PROMETHEUS_PORT="0", **settings,
    )  # fmt: skip


def test_opentelemetry_instrument_observes_the_script_and_starts_nothing_in_its_children(
    tmp_path: Path,
) -> None:
    (tmp_path / "script.py").write_text(
        "import subprocess, sys\n"
        "import jax, jax.numpy as jnp\n"
        "jax.jit(lambda x: x + 1)(jnp.ones(3))\n"
        "from jaxobs.plugin.threads import living\n"
        "print(any(thread.name == 'jaxobs-sender' for thread in living()), flush=True)\n"
        "child = 'import os, jax; from jaxobs.plugin.threads import living; print(living())'\n"
        "subprocess.run([sys.executable, '-c', child], check=True)\n"
    )
    observed = opentelemetry_instrument(tmp_path)
    assert (observed.status, observed.stdout) == (0, "True\n[]\n"), observed.stderr


def test_spans_of_the_application_and_metrics_of_jaxobs_are_of_one_instance(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "trace.set_tracer_provider(TracerProvider())\n"
        "import sys, time, urllib.request, jax\n"
        "jax.jit(lambda x: x + 1)(1.0)\n"
        "while (address := sys.modules['jaxobs.instrument'].current().address) is None: time.sleep(0.1)\n"
        "page = urllib.request.urlopen(address).read().decode()\n"
        "print(trace.get_tracer_provider().resource.attributes['service.instance.id'] in page)\n"
    )
    observed = opentelemetry_instrument(
        tmp_path, OTEL_EXPERIMENTAL_RESOURCE_DETECTORS="otel,service_instance"
    )
    assert (observed.status, observed.stdout) == (0, "True\n"), observed.stderr


def test_an_unknown_setting_is_named_once(tmp_path: Path) -> None:
    source = f"import sys; print('the script', file=sys.stderr)\n{OBSERVES_ITSELF}\nimport jax; jax.devices()"
    (tmp_path / "script.py").write_text(source)
    told = "unknown setting JAXOBS_INTERVL (did you mean JAXOBS_INTERVAL?)\n"
    for variables in ({}, {"JAXOBS_PROMETHEUS": "false"}):
        given = {"OTEL_EXPORTER_PROMETHEUS_PORT": "0"} | variables  # a taken port would be one more line
        observed = jaxobs("run", "script.py", folder=tmp_path, JAXOBS_INTERVL="3", **given)
        assert observed.stderr.startswith(f"the script\njaxobs: {told}jaxobs: "), observed.stderr
        assert observed.stderr.count("INTERVL") == 1
    alone = outcome(
        [sys.executable, "script.py"], tmp_path, JAXOBS_INTERVL="3", OTEL_EXPORTER_PROMETHEUS_PORT="0"
    )
    assert alone.stderr == f"the script\njaxobs: {told}"


WAITS_FOR_ITS_ADDRESS = """
import sys, time, jax
jax.jit(lambda x: x + 1)(1.0)
while (address := sys.modules["jaxobs.instrument"].current().address) is None: time.sleep(0.1)
print(address, flush=True)
"""


def test_a_terminal_is_told_where_the_metrics_are_as_soon_as_they_are_there(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(WAITS_FOR_ITS_ADDRESS)
    ours, theirs = os.openpty()
    settings = environment(OTEL_EXPORTER_PROMETHEUS_PORT="0")
    with subprocess.Popen(
        [*JAXOBS, "run", "script.py"],
        cwd=tmp_path,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as process:
        os.close(theirs)
        assert process.stdout is not None
        address = process.stdout.read().strip()
        said = b""
        with contextlib.suppress(OSError):  # how the other end of a terminal tells that nobody is left
            while piece := os.read(ours, 4096):
                said += piece
    os.close(ours)
    assert address.startswith("http://localhost:")
    first, second, third, *_ = said.decode().split("\r\n")
    assert first == f"jaxobs: live page {address.removesuffix('metrics')}, metrics {address}"
    assert second.startswith("jaxobs: if the job is killed its last summary is in /")
    assert third.startswith("jaxobs: ")
    assert address not in said.decode().partition("\r\n")[2]  # where nobody serves any more


def test_a_captured_standard_error_names_no_address_where_nobody_serves_any_more(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(WAITS_FOR_ITS_ADDRESS)
    observed = jaxobs("run", "script.py", folder=tmp_path, OTEL_EXPORTER_PROMETHEUS_PORT="0")
    address = observed.stdout.strip()
    assert address.startswith("http://localhost:")
    assert address not in observed.stderr
    assert observed.stderr.startswith("jaxobs: ")


TERMINATED = """
import jax, jaxobs, logging, os, signal, sys, time
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
jax.jit(lambda x: x + 1)(1.0).block_until_ready()
while "<lambda>" not in (jaxobs.instrument().snapshot(10.0).to_dict().get("functions") or {}):
    time.sleep(0.1)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(10)
"""


@pytest.mark.parametrize("prometheus", ["true", "false"])
def test_the_summary_of_a_terminated_script_is_where_the_log_says(tmp_path: Path, prometheus: str) -> None:
    (tmp_path / "script.py").write_text(TERMINATED)
    kept = tmp_path / "summaries"
    kept.mkdir()
    observed = jaxobs(
        "run", "script.py", folder=tmp_path, OTEL_EXPORTER_PROMETHEUS_PORT="0", JAXOBS_PROMETHEUS=prometheus,
        JAXOBS_RUN_DIRECTORY=str(kept),
    )  # fmt: skip
    assert observed.status == -signal.SIGTERM
    said = re.search(r"if the job is killed its last summary is in (\S+)", observed.stdout)
    assert said, observed.stdout
    file = Path(said[1])
    deadline = time.monotonic() + 30.0  # the agent has a low priority
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert file.parent.parent == kept
    assert "<lambda>" in file.read_text()


KILLED_BEFORE_THE_FIRST_SAMPLE = """
import jax, jaxobs, os, signal, time
from jaxobs.probe.side import ProbeSide
sample = ProbeSide._sample
ProbeSide._sample = lambda side: (time.sleep(3.0), sample(side))
observer = jaxobs.instrument()
jax.jit(lambda x: x + 1)(1.0).block_until_ready()
while "<lambda>" not in (observer.snapshot(10.0).to_dict().get("functions") or {}):
    time.sleep(0.1)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(10)
"""


def test_a_job_that_is_killed_before_its_first_sample_leaves_its_summary(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(KILLED_BEFORE_THE_FIRST_SAMPLE)
    kept = tmp_path / "runs"
    kept.mkdir()
    observed = outcome([sys.executable, "script.py"], tmp_path, JAXOBS_RUN_DIRECTORY=str(kept))
    assert observed.status == -signal.SIGTERM
    deadline = time.monotonic() + 30.0
    while not (files := [*kept.glob("*/killed.txt")]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "<lambda>" in files[0].read_text()


WITH_AN_AGENT_THAT_IS_BUSY = """
import jax, jaxobs, os, pathlib, signal, time
jax.jit(lambda x: x + 1)(1.0).block_until_ready()
agent = jaxobs.instrument().snapshot(60.0)["agent"]["pid"]
while not [*pathlib.Path(os.environ["JAXOBS_RUN_DIRECTORY"]).glob("*/record.json")]:
    time.sleep(0.01)
os.kill(agent, signal.SIGSTOP)
"""


@pytest.mark.parametrize("prometheus", ["true", "false"])
def test_where_there_is_no_time_for_a_summary_it_is_said_where_the_run_is_recorded(
    tmp_path: Path, prometheus: str
) -> None:
    (tmp_path / "script.py").write_text(WITH_AN_AGENT_THAT_IS_BUSY)
    kept = tmp_path / "runs"
    kept.mkdir()
    observed = jaxobs(
        "run", "script.py", folder=tmp_path, JAXOBS_PROMETHEUS=prometheus, JAXOBS_RUN_DIRECTORY=str(kept)
    )
    (folder,) = kept.iterdir()
    (said,) = observed.stderr.splitlines()
    assert said.startswith("jaxobs: no summary: the agent did not answer within ")
    assert said.endswith(f"; `jaxobs show {folder}` prints what it has recorded")
