"""With jaxobs a job compiles, computes, prints and ends exactly as without."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.beside import free_port
from tests.jobs import environment

TEN_FUNCTIONS = """
import collections, functools, logging, signal
import jax, jax.numpy as jnp
jax.config.update("jax_log_compiles", True)
heard = collections.Counter()
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **labels: heard.update([(event, labels.get("fun_name", ""))])
)

class Static:  # whatever asks more of it than JAX does fails
    def __repr__(self): raise ValueError("repr")
    __str__ = __format__ = __repr__
    __hash__ = object.__hash__
    def __eq__(self, other):
        if other is not self: raise ValueError("eq")
        return True

@jax.jit
def dense(w, x): return jnp.tanh(x @ w)
@jax.jit
def loss(w, x): return (dense(w, x) ** 2).mean()
@functools.partial(jax.jit, donate_argnums=0)
def update(w, x): return w - 0.1 * jax.grad(loss)(w, x)
@functools.partial(jax.jit, static_argnums=1)
def static(x, how): return x * 3
@jax.jit
def scanned(x): return jax.lax.scan(lambda c, _: (c * 1.1, c.sum()), x, None, length=7)
@jax.jit
def branches(x): return jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)
@jax.jit
def sampled(key): return jax.random.normal(key, (5,))
@jax.jit
def solved(a): return jnp.linalg.solve(a @ a.T + jnp.eye(6), jnp.ones(6))
@jax.jit
def raises(x): raise KeyError("of the user")
mapped = jax.jit(jax.vmap(lambda x: jnp.sort(x)[:2]))
if OBSERVED:
    dense, loss, update, static, scanned, branches, sampled, solved, raises, mapped = map(
        obs.watch, (dense, loss, update, static, scanned, branches, sampled, solved, raises, mapped)
    )
    steps = obs.steps
else:
    steps = lambda items, **_: items
w = jax.random.normal(jax.random.key(0), (8, 8))
how = Static()
for turn in steps(range(12), examples=16):
    x = jax.random.normal(jax.random.key(turn), (16 if turn < 8 else 24, 8))
    w = update(w, x)
    out = [loss(w, x), static(x, how), scanned(x), branches(x), sampled(jax.random.key(turn)), solved(w[:6, :6])]
    out += [mapped(x), static.lower(x, how).compile()(x), jax.grad(loss)(w, x)]
    try:
        raises(x)
    except KeyError as error:
        names = []
        traceback = error.__traceback__
        while traceback is not None:
            names.append(traceback.tb_frame.f_code.co_name)
            traceback = traceback.tb_next
        print(repr(error), names[0], names[-1], error.__cause__, type(error.__context__))
    if OBSERVED:
        obs.record(loss=out[0])
for leaf in jax.tree.leaves(out) + [w]:
    print(jax.device_get(leaf).tobytes().hex())
print(sorted(heard.items()))
print(sorted((name, repr(value)) for name, value in jax.config.values.items()))
print([repr(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)])
print(logging.getLogger().handlers, sys.excepthook is sys.__excepthook__, sorted(os.environ))
print("to the other stream", file=sys.stderr)
sys.exit(3)
"""


def without_seconds(text: str) -> str:
    """Compile times differ from run to run, and numbers of objects too."""
    text = re.sub(r"WARNING:\d{4}-\d\d-\d\d [\d:,]+", "WARNING", text)  # the time, in older versions
    return re.sub(r"\d+\.\d+(e-\d+)?( sec|ms| s)", "N", re.sub(r"0x[0-9a-f]+|id=\d+", "ADDRESS", text))


def test_compiles_results_output_and_status_are_equal(run: Callable[..., Any]) -> None:
    plain = run(TEN_FUNCTIONS, observed=False)
    observed = run(TEN_FUNCTIONS)
    assert plain.status == 3
    assert observed.status == 3
    assert observed.stdout == plain.stdout
    assert without_seconds(observed.stderr) == without_seconds(plain.stderr)
    assert "Finished XLA compilation of jit(update)" in plain.stderr
    assert "backend_compile_duration" in plain.stdout


AT_TEARDOWN = """
import jax
def marked(name):
    with obs.phase("input"):
        yield
    with obs.step(loop=name):
        yield
    for item in obs.steps([0], loop="eval"):
        yield
def ended():
    with jaxobs.instrument():
        yield
class Trainer:
    def __init__(self, obs):
        self.obs = obs
    def __del__(self):
        with self.obs.phase("checkpoint"), self.obs.step():
            self.obs.record(loss=1.0)
        self.obs.shutdown()
trainer, last = Trainer(obs), ended()
next(last)
kept = [marked("a"), marked("b"), marked("c")]
for turns, generator in enumerate(kept, 1):
    for _ in range(turns):
        next(generator)
"""


def test_marks_that_end_or_begin_while_the_interpreter_clears_modules_print_nothing(
    run: Callable[..., Any],
) -> None:
    outcome = run(AT_TEARDOWN)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "", "")


UNCAUGHT = """
import jax
step = jax.jit(lambda x: x + 1)
if OBSERVED:
    step = obs.watch(step)
    for _ in obs.steps(range(3)):
        step(1.0)
    with obs.step():
        raise SystemError("of the user") from None
raise SystemError("of the user") from None
"""


def test_an_uncaught_exception_ends_the_job_as_without(run: Callable[..., Any]) -> None:
    plain, observed = run(UNCAUGHT, observed=False), run(UNCAUGHT)
    assert (observed.status, observed.stdout) == (plain.status, plain.stdout) == (1, "")
    shortened = [re.sub(r"line \d+", "line N", outcome.stderr) for outcome in (plain, observed)]
    assert shortened[0] == shortened[1]


CONFIGURES = """
os.environ["JAX_ENABLE_X64"] = "1"
import jax, jax.numpy as jnp, numpy
rank = int(os.environ["RANK"])
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(os.environ["COORDINATOR"], num_processes=2, process_id=rank)
from jax.sharding import Mesh, NamedSharding, PartitionSpec
mesh = Mesh(numpy.array(jax.devices()), ("all",))
shards = NamedSharding(mesh, PartitionSpec("all"))
x = jax.make_array_from_callback((4,), shards, lambda index: numpy.arange(4.0)[index])
total = jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(mesh, PartitionSpec()))
if OBSERVED:
    total = obs.watch(total)
    for _ in obs.steps(range(5)):
        y = total(x)
        obs.record(total=y)
y = total(x)
print(jax.device_count(), jax.local_device_count(), jax.process_count(), float(y), y.dtype, flush=True)
if OBSERVED:
    time.sleep(0.3)
    deadline = time.monotonic() + 20
    while not (found := obs.snapshot()).document["process"] or found["process"]["process_count"] is None:
        assert time.monotonic() < deadline, found.to_json()
    process = found["process"]
    assert (process["process_index"], process["process_count"]) == (rank, 2), process
    assert len(found["devices"]) == 2, found["devices"]
    assert found["loops"]["train"]["recorded"] == {"total": 6.0}, found["loops"]
jax.distributed.shutdown()
"""


def test_what_the_script_configures_after_instrument_works(start: Callable[..., Any]) -> None:
    """Two processes of one JAX cluster, with several devices each and 64-bit numbers."""
    coordinator = f"localhost:{free_port()}"
    jobs = [start(CONFIGURES, RANK=str(rank), COORDINATOR=coordinator) for rank in range(2)]
    for outcome in [job.end() for job in jobs]:
        assert outcome.status == 0, outcome.stderr
        assert outcome.stdout.splitlines()[-1] == "4 2 2 6.0 float64"  # before it, Gloo may speak


def test_no_file_is_opened_in_the_encoding_that_the_locale_has(run: Callable[..., Any]) -> None:
    """Python warns of that where it is asked to, and with warnings as errors nothing would be sent any more."""
    source = """
import jax
for _ in obs.steps(range(3)):
    jax.jit(lambda x: x + 1)(1.0)
assert "train" in obs.snapshot(60)["loops"]
"""
    outcome = run(source, PYTHONWARNDEFAULTENCODING="1")
    assert outcome.status == 0
    others = sys.prefix  # JAX's own files may lie in a folder of any name
    assert "jaxobs" not in outcome.stderr.replace(others, "")


@pytest.mark.long
@pytest.mark.parametrize(
    "module", [["cProfile"], ["trace", "--count", "--coverdir=."]], ids=["cProfile", "trace"]
)
def test_a_job_that_a_module_of_python_runs_is_observed_and_ends_as_without(
    tmp_path: Path, module: list[str]
) -> None:
    """What lies beside `cProfile.py`, the script in Python's eyes, is all of the standard library."""
    source = """
import jax, jaxobs
obs = jaxobs.instrument()
step = obs.watch(jax.jit(lambda x: x + 1))
for _ in obs.steps(range(3)):
    step(1.0)
print("train" in obs.snapshot(60)["loops"])
"""
    (tmp_path / "script.py").write_text(source)
    command = [sys.executable, "-m", *module, "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("True\n")


REAL_TIME = """
import jaxobs
os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
obs = jaxobs.instrument(prometheus=False)
agent = obs.snapshot(60)["agent"]["pid"]
print(os.sched_getscheduler(agent) == os.SCHED_OTHER, os.sched_getscheduler(0) == os.SCHED_RR)
"""


def test_the_agent_of_a_job_that_has_a_processor_in_real_time_has_not(run: Callable[..., Any]) -> None:
    outcome = run(REAL_TIME, observed=False)
    if "PermissionError" in outcome.stderr:
        pytest.skip("this user may run nothing in real time")
    assert (outcome.status, outcome.stdout) == (0, "True True\n"), outcome.stderr
