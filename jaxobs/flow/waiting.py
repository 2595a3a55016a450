"""Waits for sockets of any number: `select.select()` refuses descriptors from 1,024 on, which a job may well have."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxobs.flow.descriptor import Descriptor

if TYPE_CHECKING:  # `socket.socket` may be anything at run time: a test of the job's may forbid it
    End = socket.socket | Descriptor

_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""Not epoll, which takes a descriptor of its own for each wait."""


def ready(reading: Sequence[End], writing: Sequence[End], seconds: float) -> list[End]:
    """Wait until a socket of `reading` can be read, one of `writing` written, or the seconds are over.

    Returns those that can be read, and at once those that are closed: reading them tells.
    """
    closed = [end for end in reading if end.fileno() < 0]
    with _Selector() as selector:
        for end in {*reading, *writing}:
            wanted = selectors.EVENT_READ * (end in reading) | selectors.EVENT_WRITE * (end in writing)
            if end.fileno() >= 0:
                selector.register(end, wanted)
        events = selector.select(0.0 if closed else seconds)
        found = {key.fileobj for key, which in events if which & selectors.EVENT_READ}
        return [end for end in reading if end in found or end in closed]
