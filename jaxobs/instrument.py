"""`instrument()` and what it returns: one observer a process, made of a probe side here and an agent beside it.

Longer than other files, because the public object and the order in which it begins and ends belong on one page.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

from jaxobs.flow import wire
from jaxobs.identity import process_age_seconds, read_identity
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, now
from jaxobs.model.snapshot import Snapshot
from jaxobs.probe.agent_process import Connection, start_agent_process, start_agent_thread
from jaxobs.probe.import_hook import when_imported
from jaxobs.probe.loops import Amount, Steps
from jaxobs.probe.marks import PhaseMark, StepMark
from jaxobs.probe.side import ProbeSide

if TYPE_CHECKING:
    from jaxobs.config import Settings

Item = TypeVar("Item")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

ADDRESS_SECONDS = 5.0
"""How long `address` waits for an agent that has just been started (its imports take about half a second)."""

_log = logging.getLogger("jaxobs")
_lock = threading.RLock()
_observer: Observer | None = None
_guards_forks = False


class Observer:
    """What `instrument()` returns. Every method is safe at any time, also after `shutdown()`."""

    def __init__(self, settings: Settings, *, wait_for_backend: bool = False) -> None:
        self.settings = settings
        self.final_snapshot: Snapshot | None = None
        self._pid = os.getpid()
        self._began = now() - int((process_age_seconds() or 0.0) * NANOSECONDS)
        self._identity = read_identity(run=settings.run)
        self._address: str | None = None
        self._address_known = threading.Event()
        self._answers: dict[int, Any] = {}
        self._awaited: set[int] = set()
        self._answered = threading.Condition()
        self._asked = 0
        self._started = False
        self._ended = not settings.enabled
        plain = settings.model_dump(mode="json")
        for name in ("file_sd_directory", "jsonl_directory", "cache_directory"):
            if plain[name] is not None:  # relative to where the job is: the agent is elsewhere
                plain[name] = str(Path(plain[name]).absolute())
        plain |= {"rank_on_host": self._identity.rank_on_host, "in_kubernetes": self._identity.in_kubernetes}
        self._plain_settings = plain
        self._side = ProbeSide(plain, self._hello, self._connect, self._heard, _warn)
        if self._ended:
            return
        here = weakref.WeakMethod(self._jax_is_there)  # where JAX is never imported the hook waits for ever
        when_imported("jax", lambda module: _call_if_alive(here, module))
        if wait_for_backend:
            self._side.when_first_compiled = self.start
        else:
            self.start()

    def steps(
        self,
        iterable: Iterable[Item],
        *,
        loop: str = "train",
        examples: Amount = None,
        tokens: Amount = None,
        flops: float | None = None,
    ) -> Iterable[Item]:
        """Iterate as over `iterable`, timing each turn and the wait for each item.

        `examples` and `tokens` are what one step consumes in this process: a number, or a function of the item. `flops`
        are your own model FLOPs of one step on all devices of this process; the MFU then goes by them.
        """
        return iterable if self._ended else Steps(self._side.loops, iterable, loop, examples, tokens, flops)

    def step(
        self,
        *,
        loop: str = "train",
        examples: float | None = None,
        tokens: float | None = None,
        flops: float | None = None,
    ) -> AbstractContextManager[None]:
        """One step, for loops that are no iteration. A step that raises is counted as failed."""
        return nullcontext() if self._ended else StepMark(self._side.loops, loop, examples, tokens, flops)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A stretch of time charged to itself: `checkpoint`, `evaluation`, `initialisation`, or a word of your own."""
        return PhaseMark(self._side.loops, name) if not self._ended else nullcontext()

    def watch(self, function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        """The same jitted function, whose runs and device time are then known. Attributes (`.lower`, …) are kept."""
        return (
            cast("Callable[Parameters, Result]", self._side.watch(function)) if not self._ended else function
        )

    def record(self, **values: Any) -> None:
        """Numbers to show beside ours. A JAX array is read later, when it is ready, and not on this thread."""
        if not self._ended:
            self._side.recorded.record(values)

    @property
    def address(self) -> str | None:
        """The URL of `/metrics`; None where nothing is served. Waits for the agent if it was just started."""
        if self._started and not self._ended:
            self._address_known.wait(ADDRESS_SECONDS)
        return self._address

    def snapshot(self, timeout: float = 2.0) -> Snapshot:
        """What is known now. Where the agent does not answer in time the snapshot is empty but for the reason."""
        if self._ended or not self._started:
            return self.final_snapshot or _empty(self._why_nothing())
        answer = self._ask("snapshot", timeout)
        if answer is None:
            return _empty(f"the agent did not answer within {timeout} s")
        return Snapshot(now(), answer)

    def shutdown(self, timeout: float | None = None) -> None:
        """End observing within `timeout` seconds (default: the setting `shutdown_timeout`), whatever exporters do."""
        timeout = self.settings.shutdown_timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout
        with _lock:
            if self._ended or os.getpid() != self._pid:
                self._ended = True
                return
            if self._started:
                self.final_snapshot = self.snapshot(max(0.1, min(2.0, timeout / 2)))
            self._ended = True
        atexit.unregister(self.shutdown)
        self._side.stop(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()

    def _why_nothing(self) -> str:
        if not self.settings.enabled:
            return "jaxobs is switched off (JAXOBS_ENABLED)"
        return "the observer has ended" if self._ended else "nothing has run yet"

    @property
    def belongs_here(self) -> bool:
        """False in a forked child, which inherits the object but not what it observes."""
        return os.getpid() == self._pid

    @property
    def has_ended(self) -> bool:
        """After `shutdown()`, in a forked child, and where `enabled` is false."""
        return self._ended

    def start(self) -> None:
        """Start the agent and the threads, if that has not been done: `instrument()` does, launchers wait."""
        with _lock:
            if self._started or self._ended:
                return
            self._started = True
        atexit.register(self.shutdown)
        try:
            self._side.start_threads()
        except (OSError, RuntimeError) as error:  # no file descriptor, or no thread, to be had
            self._ended = True
            atexit.unregister(self.shutdown)
            _warn(f"nothing is observed: {error}")

    def _jax_is_there(self, _: ModuleType) -> None:
        if self._ended:
            return
        if self._started:
            # Exit functions run last in, first out: ours must run before JAX takes its backends down.
            atexit.unregister(self.shutdown)
            atexit.register(self.shutdown)
        self._side.start_probes()

    def end_in_child(self) -> None:
        """After a fork: what observes the parent does nothing here."""
        if not self._ended:
            self._ended = True
            self._side.forget_in_child()

    def _connect(self) -> Connection:
        if self.settings.agent == "inline":
            from jaxobs.agent.main import serve

            return start_agent_thread(functools.partial(serve, inline=True))
        return start_agent_process()

    def _hello(self) -> dict[str, Any]:
        anchor = ClockAnchor.read()
        return {
            "settings": self._plain_settings,
            "resource": self._identity.resource(),
            "clock": tuple(anchor),
            "began": self._began,
            "agent": self.settings.agent,
        }

    def _heard(self, kind: bytes, body: Any) -> None:
        """On the sender's thread."""
        if kind == wire.ADDRESS:
            self._address = body
            if body:
                _log.info("metrics at %s", body)
            self._address_known.set()
            with self._answered:
                self._answered.notify_all()
        elif kind == wire.LOG:
            _warn(body)
        elif kind == wire.REPLY:
            with self._answered:
                if body[0] in self._awaited:  # else it came too late for whoever asked
                    self._answers[body[0]] = body[1]
                    self._answered.notify_all()

    def _ask(self, what: str, timeout: float) -> Any:
        with self._answered:
            self._asked += 1
            number = self._asked
            self._awaited.add(number)
        self._side.sender.request(number, what)
        with self._answered:
            sender = self._side.sender
            self._answered.wait_for(lambda: number in self._answers or sender.given_up, timeout)
            self._awaited.discard(number)
            return self._answers.pop(number, None)


def instrument(**settings: Any) -> Observer:
    """Start observing this process, or return the observer that already does.

    Keyword arguments are settings (`jaxobs check` lists them) and win over `JAXOBS_…` variables. Touches no JAX backend.
    Raises SettingsError (a ValueError) where a setting cannot be used; nothing else that goes wrong reaches the caller.
    """
    return _observe(wait_for_backend=False, **settings)


def attach(**settings: Any) -> None:
    """For launchers, before the script runs: does not import JAX, and starts nothing until JAX compiles something."""
    _observe(wait_for_backend=True, **settings)


def current() -> Observer | None:
    """This process's observer, if one was made: running, waiting for a backend, or ended."""
    return _observer if _observer is not None and _observer.belongs_here else None


def _observe(*, wait_for_backend: bool, **settings: Any) -> Observer:
    # Here and not above: a process that imports jaxobs without using it (a launcher's every child) loads no pydantic.
    from jaxobs.config import load_settings, unknown_variables

    global _observer, _guards_forks
    loaded = load_settings(**settings)
    with _lock:
        if not _guards_forks:
            _guards_forks = True
            os.register_at_fork(after_in_child=_in_forked_child)
        running = current()
        if running is None or running.has_ended:
            for name, meant in unknown_variables(os.environ):
                _warn(f"unknown setting {name}" + (f" (did you mean {meant}?)" if meant else ""))
            _observer = running = Observer(loaded, wait_for_backend=wait_for_backend)
        elif not wait_for_backend:
            given = [name for name, value in settings.items() if value is not None]
            other = [name for name in given if getattr(running.settings, name) != getattr(loaded, name)]
            if other:
                _warn(f"already observing, so these settings are not taken: {', '.join(other)}")
            running.start()
        return running


def _empty(reason: str) -> Snapshot:
    keys = (
        "process",
        "loops",
        "functions",
        "executables",
        "operations",
        "devices",
        "sources",
        "advice",
        "agent",
    )
    document: dict[str, Any] = {}
    for key in keys:
        document |= {key: None, f"{key}_reason": reason}
    return Snapshot(now(), document)


def _call_if_alive(method: weakref.WeakMethod[Any], module: ModuleType) -> None:
    found = method()
    if found is not None:
        found(module)


def _in_forked_child() -> None:
    global _lock
    _lock = threading.RLock()  # a thread that is not here may have held it
    if _observer is not None:
        _observer.end_in_child()


def _warn(message: str) -> None:
    with contextlib.suppress(Exception):  # the user's handlers and filters may raise
        _log.warning("%s", message)
