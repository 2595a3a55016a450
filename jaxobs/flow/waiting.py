"""Waits for sockets of any number: `select.select()` refuses descriptors from 1,024 on, which a job may well have."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Sequence

_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""Not epoll, which takes a descriptor of its own for each wait."""


def ready(
    reading: Sequence[socket.socket], writing: Sequence[socket.socket], seconds: float
) -> list[socket.socket]:
    """Wait until a socket of `reading` can be read, one of `writing` written, or the seconds are over.

    Returns those that can be read.
    """
    with _Selector() as selector:
        for end in {*reading, *writing}:
            wanted = selectors.EVENT_READ * (end in reading) | selectors.EVENT_WRITE * (end in writing)
            selector.register(end, wanted)
        found = {key.fileobj for key, events in selector.select(seconds) if events & selectors.EVENT_READ}
        return [end for end in reading if end in found]
