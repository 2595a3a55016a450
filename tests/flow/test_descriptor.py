"""Sockets of ours in a job that closes what it does not know, and in one that SIGPIPE ends."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from jaxobs.flow.pipe import Descriptor, WakeUp, close_all, ready


def test_a_number_that_means_something_else_is_not_touched(tmp_path: Path) -> None:
    ours, theirs = Descriptor.pair()
    number = ours.fileno()
    os.close(number)  # as a job does that closes every number
    somebodys = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert somebodys == number, "the system gives the lowest number"
    assert ours.fileno() == -1
    assert ready([ours], [ours], 30.0) == [ours]  # at once
    with pytest.raises(OSError, match="closed"):
        ours.send(b"x")
    with pytest.raises(OSError, match="closed"):
        ours.receive(1)
    ours.close()
    del ours
    gc.collect()
    assert os.fstat(somebodys).st_size == 0
    os.close(somebodys)
    assert theirs.receive(1) == b""
    theirs.close()


SENDS_TO_NOBODY = """
import signal
from jaxobs.flow.pipe import Descriptor
from jaxobs.flow.pipe import WakeUp
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
ours, theirs = Descriptor.pair()
theirs.close()
try:
    ours.send(b"x")
except BrokenPipeError:
    print("lives")
wake_up = WakeUp()
wake_up.reading.close()
wake_up.ring()
print("still")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="no such signal")
def test_sending_to_an_end_that_is_gone_raises_no_signal() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SENDS_TO_NOBODY], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "lives\nstill\n"), done.stderr


def sockets_open() -> set[str]:
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the listing itself
            found.add(str(descriptor.readlink()))
    return {link for link in found if link.startswith("socket:")}


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("moment", ["_socket.socketpair", "jaxobs.flow.pipe.identity"])
def test_a_child_forked_by_another_thread_while_sockets_are_made_closes_them(
    monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """At whatever moment: making them lets other threads go on, which may have waited for that in the midst of a fork."""
    before = sockets_open()
    statuses: list[int] = []

    def forks() -> None:
        child = os.fork()
        if child == 0:
            close_all()
            os._exit(len(sockets_open() - before))
        statuses.append(os.waitpid(child, 0)[1])

    forking = threading.Thread(target=forks)

    def takes_long(act: Any) -> Any:
        def acted(*args: Any) -> Any:
            made = act(*args)
            if forking.ident is None:
                forking.start()
                forking.join(0.3)
            return made

        return acted

    module, _, name = moment.rpartition(".")
    monkeypatch.setattr(moment, takes_long(getattr(sys.modules[module], name)))
    wake_up = WakeUp()
    forking.join()
    assert statuses == [0]
    wake_up.close()
    assert sockets_open() == before
