"""No thread, no process, no interpreter lock to be had: the job goes on, and nothing of ours stays behind."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxobs.plugin.guard import LIMITS
from jaxobs.probe.transport.agent_process import start_agent_process
from tests.cli.launched import environment

NO_MORE_THREADS = """
import _thread, gc, threading
import jax
import jaxobs
from jaxobs.plugin.threads import living

MOST = {most}
started = 0

begin = _thread.start_new_thread

def begin_with_too_large_a_stack(*life):
    global started
    started += 1
    if started > MOST:
        threading.stack_size(1 << 46)  # no address space has room for it: the start fails as without memory
    return begin(*life)

from jax._src import monitoring
listeners = lambda: [len(monitoring._event_listeners), len(monitoring._event_duration_secs_listeners), len(gc.callbacks)]
before = living(), len(os.listdir("/proc/self/fd")), listeners()
_thread.start_new_thread = begin_with_too_large_a_stack
obs = jaxobs.instrument()
for _ in obs.steps(range(3)):
    print(float(jax.jit(lambda x: x + 1)(1.0)))
said = "nothing is observed: RuntimeError: can't start new thread; a limit on open files or processes is too low"
assert obs.address is None and obs.snapshot()["loops_reason"].startswith(said)
obs.shutdown()
after = living(), len(os.listdir("/proc/self/fd")), listeners()
assert after == before, (after, before)
"""


@pytest.mark.parametrize("most", [0, 1])
def test_where_a_thread_cannot_be_started_the_job_is_as_without(run: Callable[..., Any], most: int) -> None:
    outcome = run(NO_MORE_THREADS.format(most=most), observed=False)
    assert (outcome.status, outcome.stdout) == (0, "2.0\n2.0\n2.0\n"), outcome.stderr
    assert outcome.stderr.splitlines() == [
        f"jaxobs: nothing is observed: RuntimeError: can't start new thread; {LIMITS}"
    ]


FEW = """
import resource
import jax, jaxobs
add = jax.jit(lambda x: x + 1)
add(1.0)  # what JAX opens and imports for it is there
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 3, most))  # an agent takes twice as many
obs = jaxobs.instrument()
print(float(add(1.0)))
obs.snapshot(60)
"""


def test_where_descriptors_are_too_few_for_an_agent_it_is_said_what_to_raise(run: Callable[..., Any]) -> None:
    outcome = run(FEW, observed=False)
    assert (outcome.status, outcome.stdout) == (0, "2.0\n"), outcome.stderr
    (line,) = outcome.stderr.splitlines()
    assert LIMITS in line and "nothing is observed" in line, outcome.stderr  # noqa: PT018


GREENLETS = """
import _thread

begin = _thread.start_new_thread
def start_new_thread(function, args=()):
    return begin(function, args)
start_new_thread.__module__ = "gevent.thread"  # as it is after `gevent.monkey.patch_all()`
_thread.start_new_thread = start_new_thread
import jax, jaxobs
from jaxobs.plugin.threads import living
obs = jaxobs.instrument()
for _ in obs.steps(range(3)):
    print(float(jax.jit(lambda x: x + 1)(1.0)))
print(living())
"""


def test_where_threads_are_greenlets_none_is_started_and_it_is_said(run: Callable[..., Any]) -> None:
    outcome = run(GREENLETS, observed=False)
    assert (outcome.status, outcome.stdout) == (0, "2.0\n2.0\n2.0\n[]\n"), outcome.stderr
    assert outcome.stderr.splitlines() == [
        "jaxobs: nothing is observed: RuntimeError: gevent has put greenlets in the place of Python's threads"
    ]


NO_INTERPRETER_LOCK = """
import jax
import jaxobs

sys._is_gil_enabled = lambda: False  # as Python 3.13 and later say it where it was built or started so
for _ in range(2):
    obs = jaxobs.instrument()
    for _ in obs.steps(range(3)):
        print(float(jax.jit(lambda x: x + 1)(1.0)))
assert obs.snapshot()["loops_reason"] == "Python runs without an interpreter lock; PYTHON_GIL=1 turns it on"
"""


def test_without_an_interpreter_lock_nothing_is_observed(run: Callable[..., Any]) -> None:
    outcome = run(NO_INTERPRETER_LOCK, observed=False)
    assert (outcome.status, outcome.stdout) == (0, "2.0\n" * 6), outcome.stderr
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("jaxobs: nothing is observed: Python runs without an interpreter lock")


FORBIDDEN = """
import builtins, io, signal, socket, subprocess
import jaxobs, jaxobs.config
class Forbidden(KIND): pass
def guard(*_, **__): raise Forbidden("not here")
def forbid(*places):
    kept = [(place, name, getattr(place, name)) for place, name in places]
    for place, name in places: setattr(place, name, guard)
    return lambda: [setattr(place, name, was) for place, name, was in kept]
files = [(builtins, "open"), (io, "open"), (os, "open")] if KIND is Exception else [(socket, "socketpair")]
for places in ([(socket, "socket")], [(socket, "socketpair")], files):
    allow = forbid(*places)
    with jaxobs.instrument() as obs:
        for _ in obs.steps(range(3)): pass
        print(obs.address, obs.snapshot(0.1)["loops"])
    allow()
with jaxobs.instrument(prometheus=False) as obs:
    for _ in obs.steps(range(3)): pass
    agent = obs.snapshot(20.0)["agent"]["pid"]
    forbid((socket, "socket"), (socket, "socketpair"), (subprocess, "Popen"))
    os.kill(agent, signal.SIGKILL)
    while not obs._side.sender.requests.over: time.sleep(0.01)
    for _ in obs.steps(range(3)): pass
print("over")
"""


@pytest.mark.parametrize("kind", ["Exception", "BaseException"])  # the latter as that of `pytest.fail`
def test_where_sockets_or_files_are_forbidden_the_job_goes_on(kind: str, run: Callable[..., Any]) -> None:
    """By any exception, before the start or after it: it is said once, and nothing is observed."""
    outcome = run(FORBIDDEN.replace("KIND", kind), observed=False)
    assert (outcome.status, outcome.stdout) == (0, "None None\n" * 3 + "over\n"), outcome.stderr
    assert outcome.stderr.splitlines() == [
        "jaxobs: nothing is observed: Forbidden: not here",
        "jaxobs: nothing is observed: Forbidden: not here",
        "jaxobs: the agent could not be started: Forbidden: not here; nothing is observed"
        if kind == "Exception"
        else "jaxobs: nothing is observed: Forbidden: not here",
        "jaxobs: the agent is gone; it is started again",
        "jaxobs: the agent could not be started: Forbidden: not here; nothing is observed",
    ]


AUDITED = """
import jax
import jaxobs
step = jax.jit(lambda x: x + 1)
step(1.0)
forbidden = False
def audit(event, _):
    if forbidden and event.startswith(FORBIDDEN):
        raise RuntimeError(event)
sys.addaudithook(audit)
forbidden = True
obs = jaxobs.instrument()
for _ in obs.steps(range(3)):
    print(float(step(1.0)))
obs.shutdown()
"""


@pytest.mark.parametrize(
    ("forbidden", "said"),
    [
        ("ctypes.", "the agent could not be started: RuntimeError: ctypes.dlopen; nothing is observed"),
        ("socket.", "nothing is observed: RuntimeError: socket.__new__"),
    ],
)
def test_where_an_audit_hook_forbids_something_the_job_goes_on(
    run: Callable[..., Any], forbidden: str, said: str
) -> None:
    outcome = run(AUDITED.replace("FORBIDDEN", repr(forbidden)), observed=False)
    assert (outcome.status, outcome.stdout) == (0, "2.0\n" * 3), outcome.stderr
    assert outcome.stderr.splitlines()[-1] == f"jaxobs: {said}"


NOWHERE = """
import os, shutil, tempfile
import jaxobs
folder = tempfile.mkdtemp()
os.chdir(folder)
shutil.rmtree(folder)
with jaxobs.instrument(prometheus=False, jsonl_directory="relative") as obs:
    for _ in obs.steps(range(3)): pass
    print(obs.snapshot(60)["loops"]["train"]["steps"])
"""


def test_where_the_working_directory_is_gone_the_job_goes_on_and_no_shell_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NOWHERE)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "train.py")], env=environment(), capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert "getcwd" not in done.stderr


def test_without_proc_it_is_said_once_that_nothing_is_observed_and_why(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import jaxobs\nprint(jaxobs.instrument().snapshot()['loops_reason'])\n"
    )
    hidden = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs none /proc && exec "$@"',
    ]
    if subprocess.run([*hidden, "sh", "true"], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    done = subprocess.run(
        [*hidden, "sh", sys.executable, str(tmp_path / "train.py")], env=environment(), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "no agent is there; the log says why\n"), done.stderr
    why = "there is no /dev/fd, as where /proc is not mounted"
    assert done.stderr == f"jaxobs: the agent could not be started: {why}; nothing is observed\n"


MANY_FILES = """
import resource
import subprocess
import jaxobs

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
obs = jaxobs.instrument(prometheus=False)
for _ in obs.steps(range(3)):
    pass
print(obs.snapshot(60)["loops"]["train"]["steps"])
"""


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1200, reason="so few may be open here")
def test_a_job_with_more_open_files_than_select_takes_is_observed(
    run: Callable[..., Any],
) -> None:
    outcome = run(MANY_FILES, observed=False)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "3\n", "")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("path", [None, "/nowhere/python"])
def test_an_agent_that_cannot_be_started_leaves_no_socket(
    monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    monkeypatch.setattr(sys, "executable", path)
    before = descriptors()
    with pytest.raises(OSError, match="there is no Python"):
        start_agent_process()
    assert descriptors() == before


def test_a_frozen_program_is_not_started_again_in_the_place_of_an_agent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    application = tmp_path / "application"
    application.write_text(f"#!/bin/sh\ntouch {started}\n", encoding="utf-8")
    application.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(application))
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(OSError, match="this program is frozen"):
        start_agent_process()
    assert not started.exists()
