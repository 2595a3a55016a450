"""`instrument()`: one observer for each process, shared by all callers, and none in a forked child.

Loaded by every `import jaxobs`, so at its top it imports only modules that Python's own start has imported.
"""

from __future__ import annotations

import _thread
import os

import jaxobs.model.clock  # noqa: F401  # binds the clocks: a test of the job's may replace them before `instrument()`

TYPE_CHECKING = False  # as `typing` has it, without importing that
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from jaxobs.observer import Observer

_lock = _thread.RLock()
_observer: Observer | None = globals().get("_observer")  # where this module is reloaded, it goes on
_guards_forks = False
_named: set[str] = set()
"""Unknown variables about which the user has been warned."""


def instrument(**settings: Any) -> Observer:
    """Start observing this process, or return the observer that already does.

    Keyword arguments are settings (`jaxobs check` lists them) and win over `JAXOBS_…` variables. Touches no JAX backend.
    Raises SettingsError (a ValueError) where a setting cannot be used; nothing else that goes wrong reaches the caller.
    """
    return _observe(wait_for_backend=False, **settings)


def attach(*, tell_address: Callable[[str, str | None], None] | None = None, **settings: Any) -> None:
    """For launchers, before the script runs: does not import JAX, and starts nothing until JAX compiles something.

    `tell_address` gets the URL of `/metrics` when it is known, and the file in which the last summary is left if the job
    is killed (None: there is no directory for it), on a thread of jaxobs; it must not raise. Who gives it prints the last
    snapshot after the end, which therefore waits for it.
    """
    observer = _observe(wait_for_backend=True, **settings)
    if tell_address is not None:
        observer.tell_address(tell_address)


def current() -> Observer | None:
    """This process's observer, if one was made: running, waiting for a backend, or ended."""
    return _observer if _observer is not None and _observer.belongs_here else None


def _observe(*, wait_for_backend: bool, **settings: Any) -> Observer:
    from jaxobs.probe.signals import HandlersPutOff

    with _lock:
        before = current()
        if before is not None and before.has_ended:
            before.shutdown()  # waits, where an earlier call was interrupted
        with HandlersPutOff():
            observer = _begun(before, settings, wait_for_backend=wait_for_backend)
    observer.await_start()
    return observer


def _begun(before: Observer | None, settings: dict[str, Any], *, wait_for_backend: bool) -> Observer:
    """The observer that `before` is, or else a new one."""
    import threading  # `probe.signals` has loaded it

    from jaxobs.config import load_settings, unknown_settings
    from jaxobs.observer import Observer, why_not_here
    from jaxobs.plugin.guard import Suppressed
    from jaxobs.plugin.log import warn

    global _observer, _guards_forks
    loaded = load_settings(**settings)
    if not _guards_forks:
        _guards_forks = True
        os.register_at_fork(after_in_child=_in_forked_child)
        with Suppressed(RuntimeError):  # the interpreter ends already
            vars(threading)["_register_atexit"](_at_the_end)  # as `concurrent.futures` does
    if before is None or before.has_ended:
        unknown = unknown_settings(os.environ)
        lines = [line for name, line in unknown.items() if name not in _named]
        _named.update(unknown)
        if loaded.enabled and (reason := why_not_here()):
            if before is None:
                lines.append(f"nothing is observed: {reason}")
            loaded = load_settings(**{**settings, "enabled": False})
        _observer = Observer(loaded, before=before)
        _observer.begin(wait_for_backend=wait_for_backend)
        for line in lines:  # last: a log handler of the user's may call `instrument()`
            warn(line)
        return _observer
    if wait_for_backend:
        before.watch_jitted()  # under a launcher the script called `instrument()` before it imported JAX
    else:
        given = [name for name, value in settings.items() if value is not None]
        other = [name for name in given if getattr(before.settings, name) != getattr(loaded, name)]
        if other:
            warn(f"already observing, so these settings are not taken: {', '.join(other)}")
        before.start()
    return before


def _at_the_end() -> None:
    if (observer := current()) is not None:
        observer.keep_end()


def _in_forked_child() -> None:
    from jaxobs.flow.pipe import close_all  # loaded by the parent
    from jaxobs.probe.watch.registry import renew_lock

    global _lock
    _lock = _thread.RLock()  # a thread of the parent, which the child lacks, may have held it
    close_all()
    renew_lock()
    if _observer is not None:
        _observer.end_in_child()
