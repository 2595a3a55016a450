"""Takes the stacks of all threads of the job, when the agent asks because nothing gets on."""

from __future__ import annotations

import threading
from typing import Any

from jaxobs.model.clock import now
from jaxobs.model.events import StacksTaken
from jaxobs.plugin.frames import running_python, stack_of
from jaxobs.plugin.threads import is_ours
from jaxobs.probe.host_lines import ThreadAccount
from jaxobs.probe.stack import MAX_FRAMES, Describer, line_of

MAX_THREADS = 16
"""The main thread first. Of the dozens that a loader has more than a few tell nothing new, and a record has its limit."""


def stacks_taken(describer: Describer) -> StacksTaken:
    """Where each thread of the job is that runs Python. No lock is taken: one that hangs may hold it."""
    listed: dict[int, Any] = dict(vars(threading).get("_active") or {})
    numbers = [number for number in running_python() if not is_ours(number)]
    main = threading.main_thread().ident
    rows = []
    for number in sorted(numbers, key=lambda number: number != main)[:MAX_THREADS]:
        known = listed.get(number)
        frames = stack_of(number, MAX_FRAMES)
        if not frames:
            continue
        account = ThreadAccount(f"/proc/self/task/{getattr(known, 'native_id', None) or 0}")
        place = describer.place(frames, on_processor=account.is_on_processor())
        account.close()
        name = str(getattr(known, "name", "")) or f"thread {number}"
        rows.append((number, name, *place, tuple(map(line_of, frames))))
    return StacksTaken(tuple(rows), now())
