"""An HTTP server on one thread that bounds what its clients can cost.

All connections share one event loop, so an idle or slow client costs a socket and no thread. Their number is capped:
the connection that has waited longest without a request is closed for a new one, and where all of them are in the
middle of a response, the new one gets 503. Each wait for a client has a deadline.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import weakref
from collections.abc import Coroutine
from contextlib import suppress
from ssl import SSLContext
from typing import Any

from jaxobs_plugins.prometheus.server.connection import Answer, Connection, Limits, Log

_RETRY_SECONDS = 0.2  # between attempts to accept while the process has no file descriptor left

_Connections = dict[asyncio.Task[None], Connection]


class HttpServer:
    """Serves `answer` at `listener` (which listens already) from `start()` to `stop()`, on one daemon thread.

    `answer` is called on that thread and must not wait; where it raises, the client gets 500.
    """

    def __init__(
        self,
        listener: socket.socket,
        answer: Answer,
        log: Log,
        limits: Limits | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._log = log
        self._limits = limits or Limits()
        self.tls = tls
        """The TLS context for clients that connect from now on; may be replaced at any time."""
        self._served: _Connections = {}
        self._refused: _Connections = {}
        self._waiting: dict[asyncio.Task[None], None] = {}  # tasks without a request, longest first
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Lock()  # taken once, and never released
        self._thread = threading.Thread(target=self._run, name="jaxobs-prometheus", daemon=True)

    def start(self) -> None:
        self._listener.setblocking(False)
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda _, context: self._log(f"prometheus: {context['message']}"))
        self._loop.add_reader(self._listener, self._accept)
        _started.add(self)
        self._thread.start()

    def stop_listening(self) -> None:
        """Refuse new clients from now on; those that are connected are served to the end."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)

    def stop(self, timeout: float) -> None:
        """Close the port at once, then the connections; waits for that `timeout` seconds at most."""
        self.stop_listening()  # possible from any thread, even while the loop's thread is rendering
        if self._loop is None:
            self._listener.close()
            return
        if self._stopping.acquire(blocking=False):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout)

    def close_after_fork(self) -> None:
        """Close all sockets in a forked child, which has inherited them but not the thread that answers."""
        self._listener.close()
        for connection in [*self._served.values(), *self._refused.values()]:
            connection.close()

    def _run(self) -> None:
        assert self._loop is not None
        self._loop.run_forever()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        self._loop.run_until_complete(_end_other_tasks())
        self._loop.close()

    def _accept(self) -> None:
        """Accept one client per turn of the loop, so that the requests of earlier ones are read in between."""
        try:
            client, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):  # gone before it was accepted
            return
        except OSError:  # no file descriptor left, or the port is closing
            assert self._loop is not None
            self._loop.remove_reader(self._listener)
            self._give_up_longest_waiting()
            self._loop.call_later(_RETRY_SECONDS, self._accept_again)
            return
        self._admit(client)

    def _accept_again(self) -> None:
        if self._loop is not None and _listens(self._listener):
            self._loop.add_reader(self._listener, self._accept)

    def _admit(self, client: socket.socket) -> None:
        client.setblocking(False)
        with suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(client, self._answer, self._log, self._limits, self.tls)
        if len(self._served) < self._limits.connections or self._give_up_longest_waiting():
            self._waiting[self._begin(self._served, connection, self._serve(connection))] = None
        elif len(self._refused) < self._limits.connections:
            self._begin(self._refused, connection, _refuse(connection))
        else:
            connection.close()

    def _begin(
        self, among: _Connections, connection: Connection, work: Coroutine[Any, Any, None]
    ) -> asyncio.Task[None]:
        def ended(task: asyncio.Task[None]) -> None:
            among.pop(task, None)
            self._waiting.pop(task, None)
            connection.close()
            if not task.cancelled() and (error := task.exception()) is not None:
                self._log(f"prometheus: a connection failed: {type(error).__name__}: {error}")

        task = asyncio.get_running_loop().create_task(work)
        among[task] = connection
        task.add_done_callback(ended)  # and not in the task itself, which may be cancelled before it begins
        return task

    def _give_up_longest_waiting(self) -> bool:
        """Close the connection that has waited longest without a request. Returns whether there was one."""
        task = next(iter(self._waiting), None)
        if task is None:
            return False
        del self._waiting[task]
        del self._served[task]
        task.cancel()
        return True

    async def _serve(self, connection: Connection) -> None:
        seconds = self._limits.first_request_seconds
        with suppress(OSError):  # gone, or too slow: TimeoutError is an OSError
            await connection.open()
            while (received := await connection.receive(seconds)) is not None:
                self._set_waiting(False)
                again = await connection.respond(received)
                self._set_waiting(True)
                if not again:
                    await connection.say_goodbye()
                    return
                seconds = self._limits.next_request_seconds
                # One client that sends many requests at once does not keep others waiting.
                await asyncio.sleep(0)

    def _set_waiting(self, waiting: bool) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._waiting.pop(task, None)
        if waiting:
            self._waiting[task] = None


async def _refuse(connection: Connection) -> None:
    with suppress(OSError):
        await connection.open()
        await connection.refuse()
        await connection.say_goodbye()


async def _end_other_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _listens(listener: socket.socket) -> bool:
    try:
        return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        return False


_started: weakref.WeakSet[HttpServer] = weakref.WeakSet()


def _close_after_fork() -> None:
    for server in list(_started):
        server.close_after_fork()


os.register_at_fork(after_in_child=_close_after_fork)
