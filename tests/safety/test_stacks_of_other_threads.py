"""The stack of a thread is read while that thread runs: what it returns from meanwhile must not be followed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from jaxobs.plugin.frames import stack_of
from tests.jobs import ROOT

READER = """
import gc, sys, threading, time
from jaxobs.plugin.frames import stack_of

def nested(depth):
    return nested(depth - 1) if depth else 0

def other(depth):
    a = b = c = d = e = f = g = depth
    return nested(depth // 2) if depth else a

def work():
    while not ended:
        for depth in range(1, 30):
            nested(depth)
            other(depth)

def lets_others_run(phase, found):
    time.sleep(0.0002)

ended = False
thread = threading.Thread(target=work, daemon=True)
thread.start()
gc.freeze()
gc.callbacks.append(lets_others_run)
gc.set_threshold(1)
sys.setswitchinterval(1e-6)
until = time.monotonic() + 3
found = set()
while time.monotonic() < until:
    found |= {frame.f_code for frame in stack_of(thread.ident, 60)}
gc.set_threshold(700)
ended = True
thread.join()
# What starts a thread, and what measures coverage in it, is in other files. The thread that is read may collect, too.
names = {code.co_name for code in found if code.co_filename == work.__code__.co_filename} - {"lets_others_run"}
assert names == {"nested", "other", "work"}, names
assert stack_of.__code__.co_filename not in {code.co_filename for code in found}, found  # that of the reader
"""

INTERPRETERS = """
import importlib.util, sys, threading, time
from jaxobs.plugin.frames import running_python, stack_of

name = "_interpreters" if importlib.util.find_spec("_interpreters") else "_xxsubinterpreters"
interpreters = importlib.import_module(name)
run = interpreters.exec if hasattr(interpreters, "exec") else interpreters.run_string

def work():
    for _ in range(20):
        made = interpreters.create()
        run(made, "import json")
        interpreters.destroy(made)

thread = threading.Thread(target=work)
thread.start()
while thread.is_alive():
    stack_of(thread.ident, 60)
    running_python()
    time.sleep(0.0002)
"""


@pytest.fixture(autouse=True)
def collector_as_before() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize("reader", [READER, INTERPRETERS], ids=["returns", "is_in_another_interpreter"])
def test_a_thread_that_moves_on_while_its_stack_is_read_is_not_harmed(reader: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", reader], env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(*, enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    assert stack_of(threading.get_ident(), 1)[0].f_code.co_name == "stack_of"
    assert gc.isenabled() == enabled


def test_a_thread_that_is_gone_has_no_stack() -> None:
    assert stack_of(None, 10) == []
    assert stack_of(1, 10) == []
