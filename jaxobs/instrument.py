"""`instrument()`: one observer for each process, shared by all callers, and none in a forked child."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from jaxobs.observer import Observer
from jaxobs.probe.log import warn
from jaxobs.probe.transport.agent_process import close_in_child
from jaxobs.probe.watch.registry import renew_lock

_lock = threading.RLock()
_observer: Observer | None = None
_guards_forks = False
named_settings: set[str] = set()
"""Unknown variables about which the user has been warned, here or by a launcher before the script began."""


def instrument(**settings: Any) -> Observer:
    """Start observing this process, or return the observer that already does.

    Keyword arguments are settings (`jaxobs check` lists them) and win over `JAXOBS_…` variables. Touches no JAX backend.
    Raises SettingsError (a ValueError) where a setting cannot be used; nothing else that goes wrong reaches the caller.
    """
    return _observe(wait_for_backend=False, **settings)


def attach(
    *,
    tell_address: Callable[[str, str | None], None] | None = None,
    prepare_summary: Callable[[], None] | None = None,
    **settings: Any,
) -> None:
    """For launchers, before the script runs: does not import JAX, and starts nothing until JAX compiles something.

    `tell_address` gets the URL of `/metrics` when it is known, and the file in which the last summary is left if the job
    is killed (None: there is no directory for it), on a thread of jaxobs; it must not raise. `prepare_summary`: the
    last snapshot is printed after the end, which therefore waits for it; this loads what prints it.
    """
    observer = _observe(wait_for_backend=True, **settings)
    observer.prepare_summary = prepare_summary
    if tell_address is not None:
        observer.tell_address(tell_address)


def current() -> Observer | None:
    """This process's observer, if one was made: running, waiting for a backend, or ended."""
    return _observer if _observer is not None and _observer.belongs_here else None


def _observe(*, wait_for_backend: bool, **settings: Any) -> Observer:
    # Not at the top: a process that imports jaxobs without using it (each child of a launcher) must not load pydantic.
    from jaxobs.config import load_settings, unknown_settings

    global _observer, _guards_forks
    loaded = load_settings(**settings)
    with _lock:
        if not _guards_forks:
            _guards_forks = True
            os.register_at_fork(after_in_child=_in_forked_child)
        running = current()
        if running is None or running.has_ended:
            for name, line in unknown_settings(os.environ).items():
                if name not in named_settings:
                    named_settings.add(name)
                    warn(line)
            _observer = running = Observer(loaded, before=running)
            running.begin(wait_for_backend=wait_for_backend)
        elif wait_for_backend:
            running.watch_jitted()  # under a launcher the script called `instrument()` before it imported JAX
        else:
            given = [name for name, value in settings.items() if value is not None]
            other = [name for name in given if getattr(running.settings, name) != getattr(loaded, name)]
            if other:
                warn(f"already observing, so these settings are not taken: {', '.join(other)}")
            running.start()
        return running


def _in_forked_child() -> None:
    global _lock
    _lock = threading.RLock()  # a thread of the parent, which the child lacks, may have held it
    close_in_child()
    renew_lock()
    if _observer is not None:
        _observer.end_in_child()
