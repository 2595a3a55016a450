"""Watches the user's own profiler sessions: ours ends before one of them begins, and their traces are read afterwards.

`ProfilerSession` in jaxlib's module is replaced by a subclass of itself, which `start_trace`, `trace` and all others
who look it up there then use. Sessions still pass `isinstance` checks against jaxlib's class.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from jaxobs.model.clock import NANOSECONDS, now, seconds, wall_now
from jaxobs.model.events import ProfileWindow
from jaxobs.plugin.wrapping import replace


class Watcher(NamedTuple):
    """Functions called for the user's sessions, on the user's threads; none may raise. The number identifies a session.

    `coming`: a session is about to be made; waits until none of ours is under way. `failed`: it could not be made.
    `ended`: it is over; its trace was returned, or was written below a directory, or neither.
    """

    coming: Callable[[int], None]
    failed: Callable[[int], None]
    ended: Callable[[int, bytes | None, str | None], None]


class UserTrace(NamedTuple):
    """A session of the user's that is over, with the trace that it returned or the directory that it wrote to."""

    start: int
    end: int
    xspace: bytes | None
    directory: str | None


def watch_sessions(module: Any, watcher: Watcher) -> Callable[[], None]:
    """Put the subclass in place. Returns a function that undoes it. Raises if jaxlib's class cannot be subclassed."""
    return replace(module, {"ProfilerSession": _watched(module.ProfilerSession, watcher)})


def _watched(original: type[Any], watcher: Watcher) -> type[Any]:
    """A subclass of jaxlib's class that behaves like it and notifies the watcher of its sessions."""
    under_way: dict[int, weakref.ref[Any]] = {}

    def over(key: int, xspace: bytes | None = None, directory: str | None = None) -> None:
        if under_way.pop(key, None) is not None:
            watcher.ended(key, xspace, directory)

    class ProfilerSession(original):  # type: ignore[misc]  # its base is known at run time only
        __doc__ = original.__doc__

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            key = id(self)
            # A session that is dropped without `stop()` is over too.
            under_way[key] = weakref.ref(self, lambda _: over(key))
            try:
                watcher.coming(key)
                super().__init__(*args, **kwargs)
            except BaseException:
                under_way.pop(key, None)
                watcher.failed(key)
                raise

        def stop(self) -> Any:
            xspace = None
            try:
                xspace = super().stop()
                return xspace
            finally:
                over(id(self), xspace if type(xspace) is bytes else None)

        def stop_and_export(self, directory: str) -> None:
            written = None
            try:
                super().stop_and_export(directory)
                written = directory
            finally:
                over(id(self), directory=written)

        def stop_and_get_profile_data(self) -> Any:
            try:
                return super().stop_and_get_profile_data()
            finally:
                over(id(self))

    ProfilerSession.__name__ = ProfilerSession.__qualname__ = original.__name__
    ProfilerSession.__module__ = original.__module__
    return ProfilerSession


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
        outcome, reason = "failed", "its trace was not returned as bytes"
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
