"""The guard: what a plugin raises stays with it, is counted, and is said once a minute."""

import functools
import gc
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from jaxobs.plugin import guard as guard_module
from jaxobs.plugin.guard import FAILURES_IN_A_ROW, Guard, raised_by_signal_handler


def fail(error: BaseException) -> None:
    raise error


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def guard(said: list[str]) -> Guard:
    return Guard("compile", "probe", said.append)


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), GeneratorExit(), MemoryError(), RecursionError()], ids=repr
)
def test_what_a_plugin_raises_is_contained_and_counted(
    guard: Guard, said: list[str], error: BaseException
) -> None:
    assert guard.call(fail, error) is None
    report = guard.report()
    assert (report.up, report.failures, report.last_success) == (False, 1, None)
    assert report.reason.startswith(type(error).__name__)
    assert len(said) == 1
    assert "probe compile failed" in said[0]


def test_a_keyboard_interrupt_is_the_users(guard: Guard) -> None:
    with pytest.raises(KeyboardInterrupt):
        guard.call(fail, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        guard.wrap(fail)(KeyboardInterrupt())
    assert guard.failures == 0


@pytest.mark.parametrize("kind", ["collector", "exporter"])
def test_where_no_ctrl_c_comes_a_keyboard_interrupt_is_the_plugins(kind: str) -> None:
    guard = Guard("rude", kind, lambda line: None)
    assert guard.call(fail, KeyboardInterrupt()) is None
    assert (guard.failures, guard.up) == (1, False)


def test_no_ctrl_c_comes_on_a_thread_beside_the_main_one(guard: Guard) -> None:
    thread = threading.Thread(target=guard.call, args=(fail, KeyboardInterrupt()))
    thread.start()
    thread.join()
    assert (guard.failures, guard.reason) == (1, "KeyboardInterrupt: ")


class Quits:
    """Ways to write a signal handler."""

    def method(self, number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # many handlers do this before they leave
        sys.exit(7)

    def __call__(self, *_: Any) -> None:
        self.leave()

    def leave(self) -> None:
        raise SystemExit(7)


@pytest.mark.parametrize(
    "handler",
    [
        Quits().method,
        Quits(),
        lambda number, frame: sys.exit(7),
        functools.partial(lambda code, number, frame: sys.exit(code), 7),
    ],
    ids=["method", "object", "lambda", "partial"],
)
def test_what_a_signal_handler_raises_is_the_users(guard: Guard, handler: Callable[..., Any]) -> None:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(SystemExit) as left:
            guard.wrap(lambda: signal.raise_signal(signal.SIGUSR1))()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert left.value.code == 7
    assert guard.failures == 0


def test_a_timeout_of_the_user_reaches_the_user(guard: Guard) -> None:
    def too_late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("the user's own")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(TimeoutError, match="own"):
            guard.call(time.sleep, 10)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_plugin_that_looks_at_frames_is_no_signal_handler(guard: Guard) -> None:
    def look(frame: FrameType, context: int) -> None:
        raise SystemExit(f"{frame} {context}")

    guard.call(lambda: look(sys._getframe(), 1))
    assert guard.failures == 1


class Hostile:
    """An object of the user's that can be asked nothing."""

    @property  # type: ignore[misc]  # hostile as it is
    def __class__(self) -> Any:
        raise RuntimeError("the user's own")

    def __repr__(self) -> str:
        raise RuntimeError("the user's own")


def test_what_objects_of_the_users_raise_when_they_are_asked_stays_with_the_guard(guard: Guard) -> None:
    def fails_on(*given: Any) -> None:
        raise KeyError(*given)

    guard.call(fails_on, Hostile(), 1)
    assert guard.failures == 1
    guard.call(fails_on, Hostile())
    assert guard.reason == "KeyError"


def test_a_hook_returns_nothing_and_keeps_its_name(guard: Guard) -> None:
    hook = guard.wrap(len)
    assert hook("abc") is None
    assert hook.__name__ == "len"


def test_one_line_a_minute_at_most(guard: Guard, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(FAILURES_IN_A_ROW - 1):
        guard.call(fail, ValueError("x"))
    assert len(said) == 1
    monkeypatch.setattr(guard_module, "LOG_SECONDS", 0.0)
    guard.call(fail, ValueError("y"))
    assert len(said) == 2
    assert "set aside" in said[1]


def test_a_plugin_that_keeps_failing_is_set_aside_and_tried_once_again(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def failing() -> None:
        calls.append(1)
        raise ValueError

    for _ in range(2 * FAILURES_IN_A_ROW):
        guard.call(failing)
    assert len(calls) == FAILURES_IN_A_ROW
    assert guard.set_aside
    monkeypatch.setattr(guard_module, "RETRY_SECONDS", 0.05)
    time.sleep(0.06)
    guard.call(failing)
    guard.call(failing)
    assert len(calls) == FAILURES_IN_A_ROW + 1  # one try, then set aside for as long again
    time.sleep(0.06)
    assert guard.call(lambda: "works") == "works"
    assert guard.up
    assert guard.call(lambda: "again") == "again"
    assert guard.report().reason == ""


def test_a_success_in_between_keeps_a_plugin_in(guard: Guard) -> None:
    for _ in range(4 * FAILURES_IN_A_ROW):
        guard.call(fail, ValueError("x"))
        if guard.failures % (FAILURES_IN_A_ROW - 1) == 0:
            guard.call(lambda: None)
    assert guard.failures == 4 * FAILURES_IN_A_ROW
    assert not guard.set_aside


def test_a_call_in_which_a_hook_has_failed_is_no_success(guard: Guard) -> None:
    guard.call(guard.wrap(fail), ValueError("as of a library that was imported before the probe was started"))
    report = guard.report()
    assert (report.up, report.failures, report.last_success) == (False, 1, None)
    assert report.reason.startswith("ValueError")


def test_the_time_spent_in_a_plugin_is_measured_from_outside_also_when_it_fails(guard: Guard) -> None:
    guard.call(time.sleep, 0.02)
    guard.call(lambda: [time.sleep(0.02), fail(ValueError("x"))])
    assert 0.04 <= guard.report().seconds < 1.0


def test_the_time_of_a_call_within_another_is_counted_once(guard: Guard) -> None:
    began = time.monotonic()
    waited: list[float] = []
    guard.call(lambda: [guard.call(time.sleep, 0.05), waited.append(guard.waiting_seconds())])
    assert 0.05 <= waited[0] <= guard.report().seconds <= time.monotonic() - began


def test_the_time_spent_on_several_threads_at_once_adds_up(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = threading.local()

    def tick() -> int:
        times.now = now = getattr(times, "now", 0) + 1
        return int(now)

    monkeypatch.setattr(guard_module, "now", tick)
    interval, calls = sys.getswitchinterval(), 20_000
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=lambda: [guard.call(int) for _ in range(calls)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert guard.report().seconds == pytest.approx(4 * calls / 1e9)


def test_a_call_that_hangs_is_seen_although_calls_on_other_threads_end(guard: Guard) -> None:
    over = threading.Event()
    hanging = threading.Thread(target=guard.call, args=(over.wait,))
    hanging.start()
    while not guard.waiting_seconds():
        time.sleep(0.001)
    guard.call(lambda: None)
    time.sleep(0.02)
    assert guard.report(0.01).reason.startswith("no answer")
    over.set()
    hanging.join()
    assert guard.waiting_seconds() == 0.0


def test_a_plugin_that_switches_itself_off_stays_off_and_says_why_once(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_module, "RETRY_SECONDS", 0.0)
    guard.switch_off("this JAX has none")
    assert guard.call(lambda: "works") is None
    assert guard.set_aside
    report = guard.report()
    assert (report.up, report.reason, report.failures) == (False, "this JAX has none", 1)


def test_a_plugin_may_switch_itself_off_in_the_middle_of_a_call(guard: Guard) -> None:
    guard.call(guard.switch_off, "enough")
    assert not guard.up
    assert guard.report().reason == "enough"


def test_a_plugin_that_fails_as_it_switches_itself_off_stays_off(
    guard: Guard, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_module, "RETRY_SECONDS", 0.0)

    def end() -> None:
        guard.switch_off("this JAX has none")
        raise OSError("and this besides")

    for _ in range(FAILURES_IN_A_ROW - 1):
        guard.call(fail, OSError("before"))
    guard.call(end)
    assert guard.set_aside
    assert guard.reason == "this JAX has none"
    assert "this JAX has none" in said[-1]  # though a failure was told just before


def test_asking_who_raised_an_error_keeps_nothing_that_is_on_the_stack() -> None:
    """Up to Python 3.12 a frame whose variables were read keeps them, the error among them."""
    ours: dict[str, Any] = {"__name__": "jaxobs.example", "raised": raised_by_signal_handler}
    caught = "    try:\n        raise RuntimeError\n    except RuntimeError as error:\n        raised(error)"
    exec(f"def asks():\n{caught}", ours)  # a function of a module of ours

    class Large:
        pass

    def calls() -> weakref.ref[Large]:
        large = Large()
        ours["asks"]()
        return weakref.ref(large)

    gc.collect()
    gc.disable()
    try:
        assert calls()() is None
    finally:
        gc.enable()
