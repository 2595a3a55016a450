"""Jobs that end with steps in flight: no array of theirs is held by jaxobs, and each ends as without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.endings import VARIANTS, status_of

RUNS = 30
"""Of all variants together: half of the runs of `record` and `shutdown` ended by SIGSEGV before all was let go of."""


@pytest.mark.slow
@pytest.mark.timeout(600)  # thirty jobs of three seconds, each longer beside others
@pytest.mark.fault(70)
def test_a_job_with_steps_in_flight_ends_with_its_own_status() -> None:
    names = [name for _, name in zip(range(RUNS), list(VARIANTS) * RUNS, strict=False)]
    with ThreadPoolExecutor(3) as pool:
        statuses = Counter(zip(names, pool.map(status_of, names), strict=True))
    assert sorted(statuses) == sorted((name, VARIANTS[name].status) for name in set(names)), statuses


HOLDS = """
import gc, weakref
import jax.numpy as jnp
import jaxobs_plugins
from jax._src import xla_bridge

OURS = tuple(os.path.dirname(package.__file__) + os.sep for package in (jaxobs, jaxobs_plugins))

def held():
    "Who of jaxobs refers to an array, a device, the client or an executable, through plain containers too."
    seen, found, targets = set(), set(), [*jax.live_arrays(), *jax.devices(), xla_bridge.get_backend()]
    for depth in range(4):
        next_targets = []
        for referrer in gc.get_referrers(*targets):
            kind, frame = type(referrer), getattr(referrer, "f_code", None)
            if id(referrer) in seen or referrer is targets or referrer is next_targets or referrer is globals():
                continue
            seen.add(id(referrer))
            if kind.__module__.startswith("jaxobs"):
                found.add(kind.__qualname__)
            elif frame is not None and frame.co_filename.startswith(OURS):
                found.add(frame.co_qualname)
            elif kind.__name__ in {"dict", "list", "tuple", "set", "cell", "deque", "method", "partial", "generator"}:
                next_targets.append(referrer)
        targets = next_targets
    return sorted(found)

obs = jaxobs.instrument(interval=0.05, sample_interval=0.05)
import jax
slow = jax.jit(lambda x: jax.lax.fori_loop(0, 40_000, lambda turn, x: x @ x * 0.01, x).sum())
step, slow = obs.watch(jax.jit(lambda w, x: (w @ x, (w * x).sum()))), obs.watch(slow)
w = x = jnp.ones((256, 256))
until = time.monotonic() + 1.0
for _ in obs.steps(iter(int, 1)):
    w, loss = step(w, x)
    obs.record(loss=loss, more=loss + 1)
    if time.monotonic() > until:
        break
try:
    step(w, jnp.ones(3))
except TypeError:
    pass
with obs.phase("evaluation"):
    step(w, x)
if jax.__version_info__ >= (0, 8):  # older ones write to the console as a window begins
    obs.profile(0.1)
seconds = slow(w)  # ten and more of work for the device
other = seconds + 1
obs.record(loss=seconds, more=other)
held_before = held()
obs.shutdown()
obs.record(loss=seconds)
print("RecordedValues" in held_before, not seconds.is_ready(), held())
print(obs.final_snapshot["loops"]["train"]["recorded"], flush=True)
os._exit(0)  # nobody waits for it
"""


@pytest.mark.fault(70)
def test_after_the_end_nothing_of_jaxobs_refers_to_an_array_and_the_last_value_that_was_ready_is_told(
    run: Callable[..., Any],
) -> None:
    outcome = run("import jaxobs\n" + HOLDS, observed=False)
    assert (outcome.status, outcome.stderr) == (0, "")
    held, recorded = outcome.stdout.splitlines()
    assert held == "True True []"
    assert "'loss': " in recorded, recorded
    assert "'more': " in recorded, recorded


CLEARED = """
import atexit
obs = jaxobs.instrument(prometheus=False)
class Odd:
    def __call__(self): print("odd")
    def __eq__(self, other): raise ValueError("eq")
{atexit}
class Last:
    def __del__(self, obs=obs):
        print("last", obs.has_ended, obs.final_snapshot is not None, flush=True)
last = Last()  # let go of with the modules, after all exit functions
atexit.register(lambda: print("first", obs.has_ended))
"""


@pytest.mark.fault(70)
@pytest.mark.parametrize(
    "atexit", ["", "atexit._clear()", "atexit.unregister(obs._at_exit)", "atexit.register(Odd())"]
)
def test_it_ends_with_the_interpreter_whatever_the_job_does_with_exit_functions(
    run: Callable[..., Any], atexit: str
) -> None:
    outcome = run("import jaxobs\n" + CLEARED.format(atexit=atexit), observed=False)
    assert (outcome.status, outcome.stderr) == (0, "")
    odd = ["odd"] * ("Odd" in atexit)
    assert outcome.stdout.splitlines() == [f"first {bool(atexit) and not odd}", *odd, "last True True"]


BEGUN_LATE = """
import atexit
import jax
def late():
    obs = jaxobs.instrument(prometheus=False)
    step = obs.watch(jax.jit(lambda x: x + 1))
    print(*(float(step(turn)) for turn in obs.steps(range(3))))
atexit.register(late)
"""


@pytest.mark.fault(70)
def test_what_begins_in_an_exit_function_raises_nothing(run: Callable[..., Any]) -> None:
    outcome = run("import jaxobs\n" + BEGUN_LATE, observed=False)
    assert (outcome.status, outcome.stdout) == (0, "1.0 2.0 3.0\n"), outcome.stderr


SEES_NOTHING = """
import logging, signal, threading
logging.basicConfig(level=logging.DEBUG, format="%(threadName)s")
told = []
for hook in (threading.setprofile, threading.settrace):
    hook(lambda *_: told.append(threading.get_ident()))
threading.excepthook = told.append
listed = set()
seen = True

import jaxobs
from jaxobs.plugin.threads import living
obs = jaxobs.instrument(interval=0.05, sample_interval=0.05)
waited_for = {signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGCHLD, signal.SIGRTMIN}
signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)  # before JAX has threads
import jax, jax.numpy as jnp
logging.getLogger("jax").setLevel(logging.WARNING)

step = obs.watch(jax.jit(lambda x: x + 1))
while obs.address is None: time.sleep(0.1)
for _ in obs.steps(range(100)):
    obs.record(loss=step(1.0))
    listed.update(thread.name for thread in threading.enumerate())
    time.sleep(0.01)
obs.profile(0.05)
print(sorted(thread.name for thread in living()))
for number in waited_for:
    os.kill(os.getpid(), number)
    seen &= signal.sigtimedwait({number}, 10).si_signo == number
ours = {thread.native for thread in living()}
for task in os.listdir("/proc/self/task"):
    if int(task) in ours:  # others may end meanwhile
        status = dict(line.split(":", 1) for line in open(f"/proc/self/task/{task}/status"))
        blocked = int(status["SigBlk"], 16)
        seen &= all(blocked >> number - 1 & 1 for number in (signal.SIGINT, signal.SIGALRM, signal.SIGPROF, *waited_for))
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
while threading.active_count() > 1:
    time.sleep(0.01)
print(listed, told, seen, len(ours))
obs.shutdown()
print(living())
"""


@pytest.mark.fault(71, 72)
def test_the_job_sees_none_of_our_threads_and_every_signal_reaches_it(run: Callable[..., Any]) -> None:
    outcome = run(SEES_NOTHING, observed=False)
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.splitlines() == [
        "['jaxobs-completions', 'jaxobs-host-lines', 'jaxobs-sampling', 'jaxobs-sender']",
        "{'MainThread'} [] True 4",
        "[]",
    ]
    assert (
        "jaxobs-sender" in outcome.stderr
    )  # it has logged the address, by its name, and was still not listed


CTRL_C = """
import random, signal
import jaxobs
from jaxobs.plugin.threads import living
delays = random.Random(os.environ["SEED"])
lost = []
sys.unraisablehook = lambda told: lost.append(told.object)
came = caught = 0

def ctrl_c(number, frame):
    global came
    came += 1
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, ctrl_c)
mine = [signal.SIGALRM, signal.SIGINT]
import jax
jaxobs.instrument(prometheus=False).shutdown()  # what is imported once is out of the way
until = time.monotonic() + float(os.environ["SECONDS"])
while time.monotonic() < until and came == caught:
    try:
        signal.setitimer(signal.ITIMER_REAL, delays.uniform(1e-4, 0.08))
        obs = jaxobs.instrument(prometheus=False)
        obs.record(loss=1.0)
        obs.shutdown()
        time.sleep(0.2)
    except KeyboardInterrupt:
        caught += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
print(came == caught > 10, lost, [signal.getsignal(number) for number in mine] == [ctrl_c, signal.default_int_handler])
obs = jaxobs.instrument(prometheus=False)
for _ in obs.steps(range(7)):
    pass
print(len(living()) in (3, 4), obs.has_ended)  # of one observer
obs.snapshot(20.0)  # beside what runs on a busy machine, an agent starts in four seconds
obs.shutdown()
print(obs.final_snapshot["loops"]["train"]["steps"], living())
obs = jaxobs.instrument(prometheus=False)
obs.steps(range(3))
signal.signal(signal.SIGINT, signal.default_int_handler)
import atexit
atexit.register(lambda: signal.setitimer(signal.ITIMER_REAL, 0.001))  # while we end
"""


@pytest.mark.fault(73)
def test_ctrl_c_while_it_starts_or_ends_is_the_users_and_leaves_nothing_half_done(
    run: Callable[..., Any], seed: str
) -> None:
    outcome = run(CTRL_C, observed=False, SEED=seed, SECONDS="4")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.splitlines() == ["True [] True", "True False", "7 []"]
