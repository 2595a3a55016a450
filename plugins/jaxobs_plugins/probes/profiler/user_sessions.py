"""Watches the user's own profiler sessions: ours ends before one of them begins, and their traces are read afterwards.

`ProfilerSession` in jaxlib's module is replaced by a subclass of itself, which `start_trace`, `trace` and all others
who look it up there then use. Sessions still pass `isinstance` checks against jaxlib's class. JAX up to 0.11 has the
session write its trace as it stops; later ones take it into memory and write it by the module's `export_to_xprof`.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from jaxobs.jax_compat.profiler import log_directory
from jaxobs.model.clock import NANOSECONDS, now, seconds, wall_now
from jaxobs.model.events import ProfileWindow
from jaxobs.plugin.wrapping import replace


class UserTrace(NamedTuple):
    """A session of the user's that is over, with the trace that it returned or the directory that it wrote to."""

    start: int
    end: int
    xspace: bytes | None = None
    directory: str | None = None


class Watcher(NamedTuple):
    """Functions called for the user's sessions, on the user's threads; none may raise. The number identifies a session.

    `coming`: a session is about to be made; waits until none of ours is under way. `over`: it has ended, or could not
    be made. `traced`: a session that has ended returned its trace, or wrote it, or neither.
    """

    coming: Callable[[int], None]
    over: Callable[[int], None]
    traced: Callable[[UserTrace], None]


def watch_sessions(module: Any, watcher: Watcher) -> Callable[[], None]:
    """Put the replacements in place. Returns what undoes it. Raises if jaxlib's class cannot be subclassed."""
    unwritten: dict[int, UserTrace] = {}  # by the identity of what `export_to_xprof` is about to be given
    replacements: dict[str, Any] = {"ProfilerSession": _watched(module.ProfilerSession, watcher, unwritten)}
    if hasattr(module, "export_to_xprof"):
        replacements["export_to_xprof"] = _exporting(module.export_to_xprof, watcher, unwritten)
    return replace(module, replacements)


def _watched(original: type[Any], watcher: Watcher, unwritten: dict[int, UserTrace]) -> type[Any]:
    """A subclass of jaxlib's class that behaves like it and notifies the watcher of its sessions."""
    under_way: dict[int, tuple[weakref.ref[Any], int]] = {}

    def over(key: int) -> UserTrace | None:
        """The session, without its trace yet; None where it was over before."""
        began = under_way.pop(key, None)
        if began is None:
            return None
        watcher.over(key)
        return UserTrace(began[1], now())

    def tell(trace: UserTrace | None, **its: Any) -> None:
        if trace is not None:
            watcher.traced(trace._replace(**its))

    class ProfilerSession(original):  # type: ignore[misc]  # its base is known at run time only
        __doc__ = original.__doc__

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            key = id(self)
            # A session that is dropped without `stop()` is over too.
            dropped = weakref.ref(self, lambda _: tell(over(key)))
            try:
                watcher.coming(key)
                under_way[key] = dropped, now()
                super().__init__(*args, **kwargs)
            except BaseException:
                under_way.pop(key, None)
                watcher.over(key)
                raise

        def stop(self) -> Any:
            xspace = None
            try:
                xspace = super().stop()
                return xspace
            finally:
                tell(over(id(self)), xspace=xspace if type(xspace) is bytes else None)

        def stop_and_export(self, directory: str) -> None:
            written = None
            try:
                super().stop_and_export(directory)
                written = directory
            finally:
                tell(over(id(self)), directory=written)

        def stop_and_get_profile_data(self) -> Any:
            directory, data = log_directory(self), None
            try:
                data = super().stop_and_get_profile_data()
                return data
            finally:
                trace = over(id(self))
                if trace is not None and data is not None and directory is not None:
                    unwritten[id(data)] = trace
                else:
                    tell(trace)

    ProfilerSession.__name__ = ProfilerSession.__qualname__ = original.__name__
    ProfilerSession.__module__ = original.__module__
    return ProfilerSession


def _exporting(original: Any, watcher: Watcher, unwritten: dict[int, UserTrace]) -> Any:
    """jaxlib's function, which also tells the watcher of a session's trace that it has written."""

    @functools.wraps(original)
    def export_to_xprof(profile_data: Any, xprof_dir: str, *args: Any, **kwargs: Any) -> Any:
        trace = unwritten.pop(id(profile_data), None)
        try:
            return original(profile_data, xprof_dir, *args, **kwargs)
        finally:
            if trace is not None:
                watcher.traced(trace._replace(directory=xprof_dir))

    return export_to_xprof


def window_of(trace: UserTrace, maximum_bytes: int) -> ProfileWindow:
    """The event that reports a session of the user's. Reads the file that the session wrote."""
    try:
        return _window_of(trace, maximum_bytes)
    except OSError as error:
        reason = f"its trace could not be read: {error}"
        return ProfileWindow("user", "unreadable", trace.start, trace.end, 0, None, "", reason)


def _window_of(trace: UserTrace, maximum_bytes: int) -> ProfileWindow:
    outcome, reason, path, xspace = "read", "", "", trace.xspace
    if trace.directory is not None:
        # The second taken off is for file systems whose times are coarse.
        path = _newest_trace(trace.directory, wall_now() / NANOSECONDS - seconds(now() - trace.start) - 1.0)
        if not path:
            outcome, reason = "failed", f"no trace was found under {trace.directory}"
        elif Path(path).stat().st_size <= maximum_bytes:
            xspace = Path(path).read_bytes()
    elif xspace is None:
        outcome, reason = "failed", "its trace was neither written to a directory nor returned as bytes"
    size = len(xspace) if xspace is not None else Path(path).stat().st_size if path else 0
    if size > maximum_bytes:
        outcome, xspace = "too_large", None
        reason = f"{size} bytes are more than JAXOBS_PROFILE_MAXIMUM_BYTES={maximum_bytes}"
    return ProfileWindow("user", outcome, trace.start, trace.end, 0, xspace, path, reason)


def _newest_trace(directory: str, since: float) -> str:
    """The path of the newest trace under a log directory that was written after `since` (Unix time); empty if none."""
    found: list[tuple[float, str]] = []
    with contextlib.suppress(OSError):
        for path in Path(directory).absolute().glob("plugins/profile/*/*.xplane.pb"):
            written = path.stat().st_mtime
            if written >= since:
                found.append((written, str(path)))
    return max(found)[1] if found else ""
