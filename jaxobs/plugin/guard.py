"""The guard around every call into a plugin: times it, contains errors, and sets aside a plugin that keeps failing."""

from __future__ import annotations

import errno
import functools
import inspect
import math
import threading
from collections.abc import Callable
from itertools import pairwise
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

from jaxobs.model.clock import monotonic, now, seconds
from jaxobs.model.events import SourceReported

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

FAILURES_IN_A_ROW = 5
"""Failures without a success in between after which a plugin is set aside."""

RETRY_SECONDS = 60.0
"""Seconds after which a plugin that was set aside is tried once more; a failure then
sets it aside for as long again."""

LOG_SECONDS = 60.0


TRACEBACK: Any = BaseException.__dict__["__traceback__"]
"""Reads and sets an error's own traceback: its class may define the name, or forbid to set attributes, as a frozen
dataclass does."""


class Guard:
    """Runs a plugin's functions so that they can neither raise into their caller nor fail unseen.

    Two kinds of exceptions pass through. KeyboardInterrupt does in a probe on the job's main thread, where it is the
    user's; on other threads, which no Ctrl-C reaches, it would end their work. Exceptions that a signal handler of the
    user's raised pass too, because Python may run one in the middle of any call. Any other SystemExit is the plugin's
    and does not pass.
    """

    def __init__(self, source: str, kind: str, log: Callable[[str], None]) -> None:
        self.source = source
        self.kind = kind
        self.failures = 0
        self.reason = ""
        self.idle_reason = ""
        """Why the plugin measures nothing though nothing failed: its library is not installed, say."""
        self.failing = ""
        """Why what the plugin does is in vain though its calls succeed: the receiver of what it sends is gone, say."""
        self.last_success: int | None = None
        self._log = log
        self._in_a_row = 0
        self._nanoseconds = 0
        self._last_log: float | None = None
        self._set_aside_at: float | None = None
        self._calls: dict[int, int] = {}
        """When the outermost call under way on each thread began, by `now()`."""

    @property
    def up(self) -> bool:
        return self._in_a_row == 0 and not self.reason

    @property
    def set_aside(self) -> bool:
        return self._set_aside_at is not None and monotonic() - self._set_aside_at < RETRY_SECONDS

    def call(
        self, function: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result | None:
        """The function's result; None if it failed or the plugin is set aside."""
        if self._set_aside_at is not None and self.set_aside:
            return None
        thread, failures = threading.get_ident(), self.failures
        started, is_outermost = now(), thread not in self._calls
        try:
            if is_outermost:
                self._calls[thread] = started
            result = function(*args, **kwargs)
        except BaseException as error:
            if (self.kind == "probe" and is_ctrl_c(error)) or raised_by_signal_handler(error):
                raise
            self.fail(error)
            return None
        finally:
            if is_outermost:  # else the time is counted by the call around this one
                self._calls.pop(thread, None)
                # Not in one line: in a call within the addition other threads may add theirs.
                spent = now() - started
                self._nanoseconds += spent
        # A hook that was called within may have failed, as of a library that is imported when its probe starts.
        if self.failures == failures and not self._switched_off:
            self._in_a_row = 0
            self._set_aside_at = None
            self.reason = ""
            self.last_success = now()
        return result

    def wrap(self, function: Callable[Parameters, Any]) -> Callable[Parameters, None]:
        """A guarded form of a function, for JAX or the user's thread to call."""

        @functools.wraps(function)
        def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
            self.call(function, *args, **kwargs)

        return guarded

    def fail(self, error: BaseException | str) -> None:
        """Count a failure, of a call here or elsewhere, and log it, at most once a minute."""
        self.failures += 1
        self._in_a_row += 1
        if self._switched_off:
            return
        self.reason = error if isinstance(error, str) else described(error)
        if self._in_a_row >= FAILURES_IN_A_ROW:
            self._set_aside_at = monotonic()
        if self._last_log is None or monotonic() - self._last_log >= LOG_SECONDS:
            self._last_log = monotonic()
            aside = f"; set aside for {RETRY_SECONDS:.0f} s" if self._set_aside_at is not None else ""
            self._log(f"{self.kind} {self.source} failed: {self.reason}{aside}")

    def switch_off(self, reason: str) -> None:
        """Switch the plugin off for good, by its own decision. Logged even if a failure was logged a moment ago."""
        self._last_log = None
        self.fail(reason)
        self._set_aside_at = math.inf

    def close(self) -> None:
        """Let nothing of the plugin run any more, without a log line; for a forked child, where its hooks remain."""
        self._set_aside_at = math.inf

    @property
    def _switched_off(self) -> bool:
        return self._set_aside_at == math.inf

    def waiting_seconds(self) -> float:
        """The seconds that the call under way has taken; of several at once, the one that began first."""
        since = min(list(self._calls.values()), default=None)
        return 0.0 if since is None else seconds(now() - since)

    def report(self, patience: float | None = None) -> SourceReported:
        """The plugin's state. It is not up where a call has not returned for `patience` seconds."""
        up, waiting = self.up and not self.failing, self.waiting_seconds()
        reason = self.reason or self.failing or self.idle_reason
        if patience is not None and waiting >= patience:
            up, reason = False, f"no answer for {waiting:.0f} s"
        return SourceReported(
            self.source, self.kind, up, seconds(self._nanoseconds) + waiting, self.failures, self.last_success,
            reason, now(),
        )  # fmt: skip


class Suppressed:
    """`contextlib.suppress` for the user's threads, which lets exceptions of their signal handlers through."""

    def __init__(self, *kinds: type[Exception]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return isinstance(error, self._kinds) and not raised_by_signal_handler(error)


def described(error: BaseException) -> str:
    """The type and message of an error, or the type alone where reading the message fails."""
    with Suppressed(Exception):  # the message may come from an object of the user's
        return f"{type(error).__name__}: {error}"
    return type(error).__name__


LIMITS = "a limit on open files or processes is too low (`ulimit -n`, `ulimit -u`, pids.max of a container)"


def why_not_had(error: BaseException) -> str:
    """Why the system gave no descriptor, thread or process, and what to raise where that is a limit."""
    reason = str(error) if isinstance(error, OSError) else described(error)
    reached = getattr(error, "errno", None) in {errno.EAGAIN, errno.EMFILE, errno.ENFILE}
    return f"{reason}; {LIMITS}" if reached or "can't start new thread" in reason else reason


def is_ctrl_c(error: BaseException) -> bool:
    """Whether an error may be the user's Ctrl-C, which Python raises only on the main thread."""
    return isinstance(error, KeyboardInterrupt) and threading.get_ident() == threading.main_thread().ident


def raised_by_signal_handler(error: BaseException) -> bool:
    """Whether a signal handler raised an error, or something that the handler called.

    Python calls a handler with the signal's number and the frame that it interrupted, so a handler has its own caller's
    frame after a number among its arguments. (`signal.getsignal` would miss handlers that reset themselves before they
    raise.) Frames of ours are none of these and are not read: up to Python 3.12 a frame keeps what was read of it, and
    one with the error among its variables would keep all that is on the stack.
    """
    traceback = TRACEBACK.__get__(error)
    while traceback is not None:
        frame, name = traceback.tb_frame, traceback.tb_frame.f_globals.get("__name__")
        is_ours = type(name) is str and name.startswith("jaxobs")
        if not is_ours and _handles_signal(frame):
            return True
        traceback = traceback.tb_next
    return False


def _handles_signal(frame: FrameType) -> bool:
    code, local = frame.f_code, frame.f_locals
    given = [local.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & inspect.CO_VARARGS:
        given += local.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())
    # `type` and not `isinstance`, which reads the `__class__` of other objects: that of a user's object may raise.
    # A list: what another handler raises while a generator is closed would be lost.
    return True in [
        type(number) is int and behind is frame.f_back is not None for number, behind in pairwise(given)
    ]
