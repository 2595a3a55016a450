"""The guard: what a plugin raises stays with it, is counted, and is said once a minute."""

import time

import pytest

from jaxobs.plugin import guard as guard_module
from jaxobs.plugin.guard import FAILURES_IN_A_ROW, Guard


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


def test_a_hook_returns_nothing_and_keeps_its_name(guard: Guard) -> None:
    hook = guard.wrap(len)
    assert hook("abc") is None  # type: ignore[func-returns-value]
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


def test_the_time_spent_in_a_plugin_is_measured_from_outside_also_when_it_fails(guard: Guard) -> None:
    guard.call(time.sleep, 0.02)
    guard.call(lambda: [time.sleep(0.02), fail(ValueError("x"))])
    assert 0.04 <= guard.report().seconds < 1.0
