"""Watches the user's own profiler sessions: ours ends before one of them begins, and their traces are read afterwards.

`ProfilerSession` in jaxlib's module is replaced by a subclass of itself, which `start_trace`, `trace` and all others
who look it up there then use. Sessions still pass `isinstance` checks against jaxlib's class. JAX up to 0.11 has the
session write its trace as it stops; later ones take it into memory and write it by the module's `export_to_xprof`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from jaxobs.jax_compat.runtime import is_to_be_written
from jaxobs.model.clock import NANOSECONDS, now, seconds, wall_now
from jaxobs.model.events import ProfileWindow
from jaxobs.plugin.wrapping import replace


class UserTrace(NamedTuple):
    """A session of the user's that is over, with the trace that it returned or the directory that it wrote to.

    It recorded from `start` to `end`, and its trace's clock began `lead` before (`ProfileWindow`).
    """

    start: int
    end: int
    xspace: bytes | None
    directory: str | None
    lead: int


def watch_sessions(module: Any, sessions: Sessions) -> Callable[[], None]:
    """Put the replacements in place, which tell `sessions` of theirs. Returns what undoes it.

    Raises if jaxlib's class cannot be subclassed.
    """
    replacements: dict[str, Any] = {"ProfilerSession": _watched(module.ProfilerSession, sessions)}
    if hasattr(module, "export_to_xprof"):
        replacements["export_to_xprof"] = _exporting(module.export_to_xprof, sessions)
    return replace(module, replacements)


class Sessions:
    """The user's sessions that are under way, and the traces that have yet to be written.

    Its functions are called on the user's threads, and none may raise. `coming`: a session, known by its number, is
    about to be made; waits until none of ours is under way. `gone`: it has ended, or could not be made. `traced`: a
    session that has ended returned its trace, or wrote it, or neither.
    """

    def __init__(
        self, coming: Callable[[int], None], gone: Callable[[int], None], traced: Callable[[UserTrace], None]
    ) -> None:
        self._coming, self._gone, self._traced = coming, gone, traced
        self._under_way: dict[int, tuple[weakref.ref[Any], int, int]] = {}
        self._unwritten: dict[int, UserTrace] = {}  # by the identity of what `export_to_xprof` will be given

    def begin(self, session: Any) -> None:
        key = id(session)
        self.end_dropped()  # one of them may have had the same identity
        self._coming(key)
        self._under_way[key] = weakref.ref(session), now(), 0

    def started(self, session: Any) -> None:
        if (begun := self._under_way.get(id(session))) is not None:
            self._under_way[id(session)] = (*begun[:2], now() - begun[1])

    def end_dropped(self) -> None:
        """Tell of sessions that were dropped without `stop()`, which are over too; to be called now and then.

        A callback of the references would be told at once, but what a user's signal handler raises in one is lost.
        """
        for key, (session, *_) in list(self._under_way.items()):
            if session() is None:
                self.over(key)

    def fail(self, session: Any) -> None:
        self._under_way.pop(id(session), None)
        self._gone(id(session))

    def over(
        self, key: int, xspace: bytes | None = None, directory: str | None = None, data: Any = None
    ) -> None:
        """Tell of a session; of one whose trace is `data` and has yet to be written only that it is over."""
        if key not in self._under_way:
            return
        self._gone(key)  # first: where a signal handler raises within, it is told again
        if (began := self._under_way.pop(key, None)) is not None:
            _, starting, lead = began
            trace = UserTrace(starting + lead, now(), xspace, directory, lead)
            if data is None:
                self._traced(trace)
            else:
                self._unwritten[id(data)] = trace

    def written(self, data: Any, directory: str) -> None:
        if (trace := self._unwritten.pop(id(data), None)) is not None:
            self._traced(trace._replace(directory=directory))


def _watched(original: type[Any], sessions: Sessions) -> type[Any]:
    """A subclass of jaxlib's class that behaves like it and tells of its sessions."""

    class ProfilerSession(original):  # type: ignore[misc]  # its base is known at run time only
        __doc__ = original.__doc__

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            try:
                sessions.begin(self)
                super().__init__(*args, **kwargs)
                sessions.started(self)
            except BaseException:
                sessions.fail(self)
                raise

        def stop(self) -> Any:
            xspace = None
            try:
                xspace = super().stop()
                return xspace
            finally:
                sessions.over(id(self), xspace if type(xspace) is bytes else None)

        def stop_and_export(self, directory: str) -> None:
            written = None
            try:
                super().stop_and_export(directory)
                written = directory
            finally:
                sessions.over(id(self), directory=written)

        def stop_and_get_profile_data(self) -> Any:
            written, data = is_to_be_written(self), None
            try:
                data = super().stop_and_get_profile_data()
                return data
            finally:
                sessions.over(id(self), data=data if written else None)

    ProfilerSession.__name__ = ProfilerSession.__qualname__ = original.__name__
    ProfilerSession.__module__ = original.__module__
    return ProfilerSession


def _exporting(original: Any, sessions: Sessions) -> Any:
    """The function of jaxlib, which also tells that it has written a session's trace."""

    @functools.wraps(original)
    def export_to_xprof(profile_data: Any, xprof_dir: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(profile_data, xprof_dir, *args, **kwargs)
        finally:
            sessions.written(profile_data, xprof_dir)

    return export_to_xprof


def window_of(trace: UserTrace, maximum_bytes: int) -> ProfileWindow:
    """The event that reports a session of the user's. Reads the file that the session wrote."""
    outcome, reason, path, xspace, size = "read", "", "", trace.xspace, len(trace.xspace or b"")
    try:
        if trace.directory is not None:
            # The second taken off is for file systems whose times are coarse.
            path = _newest_trace(
                trace.directory, wall_now() / NANOSECONDS - seconds(now() - trace.start) - 1.0
            )
            if not path:
                outcome, reason = "failed", f"no trace of this host was found under {trace.directory}"
            elif (size := Path(path).stat().st_size) <= maximum_bytes:
                xspace = Path(path).read_bytes()
        elif xspace is None:
            outcome, reason = "failed", "its trace was neither written to a directory nor returned as bytes"
    except OSError as error:
        outcome, reason = "unreadable", f"its trace could not be read: {error}"
    if size > maximum_bytes:
        outcome, xspace = "too_large", None
        reason = f"{size} bytes are more than JAXOBS_PROFILE_MAXIMUM_BYTES={maximum_bytes}"
    return ProfileWindow("user", outcome, trace.start, trace.end, 0, xspace, path, reason, trace.lead)


def _newest_trace(directory: str, since: float) -> str:
    """The path of this host's newest trace under a log directory, written after `since` (Unix time); empty if none.

    JAX names a trace by its host, and all hosts of a job may write to one directory.
    """
    found: list[tuple[float, str]] = []
    with contextlib.suppress(OSError):
        for path in Path(directory).absolute().glob(f"plugins/profile/*/{os.uname().nodename}.xplane.pb"):
            written = path.stat().st_mtime
            if written >= since:
                found.append((written, str(path)))
    return max(found)[1] if found else ""
