"""Takes the stacks of all threads of the job, when the agent asks because nothing gets on."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from jaxobs.model.clock import now
from jaxobs.model.events import StacksTaken
from jaxobs.plugin.frames import running_python, stack_of
from jaxobs.plugin.threads import is_ours
from jaxobs.probe.host_lines import ThreadAccount
from jaxobs.probe.stack import MAX_FRAMES, Describer, line_of

Row = tuple[int, str, str, str, str, tuple[str, ...]]

MAX_THREADS = 16
"""The loop's and the main thread first. Of the dozens that a loader has more than a few tell nothing new, and a record
has its limit."""


def stacks_taken(describer: Describer, thread: int) -> StacksTaken:
    """Where each thread of the job is that runs Python, the one of that number first.

    No lock is taken, as one that hangs may hold it, and nothing of the user's is called. A thread of which something
    cannot be told is left out.
    """
    listed: dict[int, Any] = dict(vars(threading).get("_active") or {})
    main = threading.main_thread().ident
    numbers = [number for number in running_python() if not is_ours(number)]
    rows = []
    for number in sorted(numbers, key=lambda number: (number != thread, number != main))[:MAX_THREADS]:
        with contextlib.suppress(Exception):
            known = vars(listed[number]) if number in listed else {}
            rows.append(_row(describer, number, known.get("_name"), known.get("_native_id")))
    return StacksTaken(tuple(filter(None, rows)), now())


def _row(describer: Describer, number: int, name: object, native: object) -> Row | None:
    """Where a thread is; None if it has ended."""
    frames = stack_of(number, MAX_FRAMES)
    if not frames:
        return None
    account = ThreadAccount(f"/proc/self/task/{native or 0}")
    place = describer.place(frames, on_processor=account.is_on_processor())
    account.close()
    known = name if type(name) is str and name else f"thread {number}"
    return number, known, *place, tuple(map(line_of, frames))
