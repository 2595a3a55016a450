"""The stacks of the job's threads, as they are taken when the agent asks."""

from __future__ import annotations

import threading

from jaxobs.plugin.threads import Flag, Thread
from jaxobs.probe.host_lines import stacks_taken
from jaxobs.probe.stack import Describer
from tests.waiting import wait_for


def rest(over: Flag) -> None:
    over.wait()


def wait_for_the_key(lock: threading.Lock) -> None:
    with lock:
        pass


def test_each_thread_of_the_job_is_told_with_its_line_and_none_of_ours() -> None:
    lock, over = threading.Lock(), Flag()
    nothing = (lambda: None).__code__
    ours = Thread("test", rest, over)
    other = threading.Thread(target=wait_for_the_key, args=(lock,), name="loader")
    try:
        with lock:
            other.start()
            describer = Describer(nothing, nothing)

            def waiting() -> bool:
                rows = {row[1]: row for row in stacks_taken(describer, 0).threads}
                return "loader" in rows and rows["loader"][2].endswith(" wait_for_the_key")

            wait_for(waiting, "the other thread to wait", 60)
            rows = stacks_taken(describer, 0).threads
    finally:
        other.join()
        over.set()
        ours.join()
    assert rows[0][0] == threading.main_thread().ident
    told = next(row for row in rows if row[1] == "loader")
    assert told[5][0] == told[2]
    assert any("threading.py" in frame and frame.endswith(" run") for frame in told[5])
    assert not [row for row in rows if any("threads.py" in frame for frame in row[5])]
