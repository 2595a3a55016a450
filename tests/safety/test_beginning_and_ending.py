"""instrument() and shutdown(), in every order and number."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.jobs import environment

ANY_ORDER = """
import gc, importlib, logging, pathlib, threading, weakref
import jaxobs
from jaxobs.plugin.threads import living
from jaxobs.instrument import current

def counts():
    return threading.active_count(), len(living()), len(os.listdir("/proc/self/fd"))

def children():
    mine = pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in mine if pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"]

off = jaxobs.instrument(enabled=False)
before = counts()
function = lambda: 5
assert off.watch(function) is function
items = [1, 2]
assert off.steps(items) is items
with off.step(), off.phase("checkpoint"):
    off.record(loss=1.0)
assert off.address is None
assert off.snapshot()["loops"] is None and off.snapshot()["loops_reason"]
off.shutdown()
off.shutdown()
assert counts() == before and children() == [], (counts(), before, children())

obs = jaxobs.instrument(interval=0.05)
assert jaxobs.instrument() is obs is current()
assert importlib.reload(sys.modules["jaxobs.instrument"]).instrument() is obs
told = []
handler = logging.Handler()
handler.emit = lambda record: told.append(record.getMessage())
logging.getLogger("jaxobs").addHandler(handler)
assert jaxobs.instrument(interval=0.05, enabled=False) is obs
assert told == ["jaxobs: already observing, so these settings are not taken: enabled"]
logging.getLogger("jaxobs").removeHandler(handler)
with obs:
    for _ in obs.steps(range(3)):
        pass
    open_iterator = iter(obs.steps(range(9)))
    next(open_iterator)
    mark = obs.step()
    mark.__enter__()
assert obs.has_ended and obs.final_snapshot["loops"]["train"]["steps"] == 3
mark.__exit__(None, None, None)  # a mark that outlives the observer
assert list(open_iterator) == list(range(1, 9))
assert obs.snapshot() is obs.final_snapshot
assert list(obs.steps([7])) == [7]
obs.record(loss=2.0)

again = jaxobs.instrument()
assert again is not obs and not again.has_ended
threads = [threading.Thread(target=again.shutdown) for _ in range(5)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert again.has_ended
assert counts() == before and children() == [], (counts(), before, children())

class Jitted:  # as far as can be told
    def lower(self): pass
    def __call__(self): pass
jitted = Jitted()
gone = []
for turn in range(6):
    with jaxobs.instrument(prometheus=False) as obs:
        obs.watch(jitted)()
    gone.append(weakref.ref(obs))
again = obs = mark = open_iterator = off = threads = None
current()
gc.collect()
print([reference() is not None for reference in gone])
assert counts() == before and children() == [], (counts(), before, children())
"""


def test_in_any_order_and_number_nothing_accumulates(run: Callable[..., Any]) -> None:
    outcome = run(ANY_ORDER, observed=False, PYTHONWARNINGS="error")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert (
        outcome.stdout == "[False, False, False, False, False, True]\n"
    )  # the last is still the current one


IN_A_LOG_HANDLER = """
import logging, jaxobs
met = []
handler = logging.Handler()
handler.emit = lambda record: met.append(jaxobs.instrument())
logging.getLogger().addHandler(handler)
obs = jaxobs.instrument()
print(met == [obs])
"""


def test_a_log_handler_that_observes_too_gets_the_same_observer(run: Callable[..., Any]) -> None:
    outcome = run(IN_A_LOG_HANDLER, observed=False, JAXOBS_UNKNOWN="1")
    assert (outcome.status, outcome.stdout) == (0, "True\n"), outcome.stderr


OF_ANOTHER_LIBRARY = """
import opentelemetry.sdk.trace as sdk
from opentelemetry import trace
import jaxobs
obs = jaxobs.instrument()
trace.set_tracer_provider(provider := sdk.TracerProvider())
print(trace.get_tracer_provider() is provider)
"""


def test_the_jobs_own_tracer_provider_can_be_set_after_it(run: Callable[..., Any]) -> None:
    outcome = run(OF_ANOTHER_LIBRARY, observed=False, OTEL_PYTHON_TRACER_PROVIDER="sdk_tracer_provider")
    assert (outcome.stdout, outcome.stderr) == ("True\n", "")


JAX_COMES_LATER = """
import jaxobs.instrument, threading, os, sys
from jaxobs.instrument import attach, current
from jaxobs.plugin.threads import living
attach()
listing = lambda: sorted(os.listdir("/proc/self/fd"))
before = listing()
import jax
assert jax._src.xla_bridge._backends == {}
assert threading.active_count() == 1 and living() == [] and listing() == before
ring = current()._side.ring
pid = os.fork()
if pid == 0:
    emitted = ring.emitted()
    jax.jit(lambda x: x)(1.0)
    assert ring.emitted() == emitted
    import subprocess
    assert current() is None
    assert living() == []
    os._exit(4)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 4
assert not current().has_ended
jax.config.update("jax_num_cpu_devices", 2)
assert jax.jit(lambda x: x + 1)(1.0) == 2.0
assert jax.device_count() == 2
print(sorted(thread.name for thread in living()))
print(current().snapshot(60)["functions"]["<lambda>"]["compilations"])
"""


def test_a_launcher_starts_nothing_before_the_first_compile_and_nothing_in_a_fork(
    run: Callable[..., Any],
) -> None:
    outcome = run(JAX_COMES_LATER, observed=False)
    assert outcome.status == 0, outcome.stderr
    assert (
        outcome.stdout
        == "['jaxobs-completions', 'jaxobs-host-lines', 'jaxobs-sampling', 'jaxobs-sender']\n1\n"
    )


HOSTILE = """
import logging, threading
class Raises(logging.Handler):
    def emit(self, record): raise OSError("of the user's handler")
logging.getLogger().addHandler(Raises())
os.environ["JAXOBS_NO_SUCH"] = "1"
obs = jaxobs.instrument(interval=0.05, sample_interval=0.05)
import jax, jax.numpy as jnp, numpy
class BadError(Exception):
    def __str__(self): raise RuntimeError("str")
class Bad:
    def __float__(self): raise BadError
    def __getattr__(self, name): raise RuntimeError(name)
    def __repr__(self): raise RuntimeError("repr")
step = obs.watch(jax.jit(lambda x: x + 1))
for turn in obs.steps(range(300)):
    y = step(jnp.float32(turn))
    obs.record(bad=Bad(), text="no", none=None, array=numpy.ones(3), good=numpy.float32(turn), jax=y, last=0)
    obs.record(**{f"name {turn}": turn, "caf\\udce9": 1.0, "nan": float("nan")})
    if turn % 3 == 0:
        y.delete()
    time.sleep(0.002)
last = step(jnp.float32(41))
with obs.step():
    obs.record(last=last)
jax.block_until_ready(last)
time.sleep(0.3)
found = obs.snapshot(60)["loops"]["train"]
assert found["steps"] == 301, found
assert found["recorded"]["good"] == 299.0 and found["recorded"]["last"] == 42.0, found["recorded"]
assert len(found["recorded"]) <= 200
assert not {"bad", "text", "none", "array"} & set(found["recorded"])
print("sound")
"""


def test_whatever_is_recorded_and_however_the_log_is_set_up_the_job_goes_on(run: Callable[..., Any]) -> None:
    outcome = run("import jaxobs" + HOSTILE, observed=False)
    assert (outcome.status, outcome.stdout) == (0, "sound\n"), outcome.stderr


def test_the_import_alone_loads_nothing_that_could_be_a_module_of_the_users() -> None:
    program = (
        "import sys; before = set(sys.modules); import jaxobs\n"
        "loaded = {name: module.__spec__ for name, module in sys.modules.items() if name not in before}\n"
        "print(*sorted(name for name, spec in loaded.items() if spec.origin not in ('frozen', 'built-in')))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [
        "__future__",
        "jaxobs",
        "jaxobs.instrument",
        "jaxobs.model",
        "jaxobs.model.clock",
    ]
